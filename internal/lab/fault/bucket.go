package fault

import (
	"errors"
	"sync"
	"time"
)

// BucketConfig describes a token bucket of an account or of an address, and who else drinks from it.
type BucketConfig struct {
	RPM         float64       `yaml:"rpm"`          // requests per minute, > 0
	Burst       float64       `yaml:"burst"`        // size of the bucket in requests; 0 = rpm / 10, at least 1
	OutsideMax  float64       `yaml:"outside_max"`  // share of the rate that others take, 0 to this, 0-1; default 0
	OutsideStep time.Duration `yaml:"outside_step"` // how long one share lasts; 0 = 30 s
	NoHint      bool          `yaml:"no_hint"`      // the 429 carries no Retry-After
	Ban         time.Duration `yaml:"ban"`          // an empty bucket shuts the account for this long, anew at each try; 0 = never
	Seed        uint64        `yaml:"seed"`
}

// Validate reports every problem, each beginning with the name of its field.
func (c BucketConfig) Validate() error {
	var errs []error
	if c.RPM <= 0 {
		errs = append(errs, errors.New("rpm: must be above 0"))
	}
	if c.Burst < 0 {
		errs = append(errs, errors.New("burst: must not be negative"))
	}
	if c.OutsideMax < 0 || c.OutsideMax > 1 {
		errs = append(errs, errors.New("outside_max: must be between 0 and 1"))
	}
	if c.OutsideStep < 0 {
		errs = append(errs, errors.New("outside_step: must not be negative"))
	}
	if c.Ban < 0 {
		errs = append(errs, errors.New("ban: must not be negative"))
	}
	return errors.Join(errs...)
}

// Bucket is a token bucket that several sources may share. It is safe for concurrent use.
type Bucket struct {
	cfg BucketConfig

	mu        sync.Mutex
	began, at time.Time
	tokens    float64
	bannedTo  time.Time
}

// NewBucket returns a full bucket; its outside load begins with the first Take.
func NewBucket(cfg BucketConfig) *Bucket {
	if cfg.Burst == 0 {
		cfg.Burst = max(1, cfg.RPM/10)
	}
	if cfg.OutsideStep == 0 {
		cfg.OutsideStep = 30 * time.Second
	}
	return &Bucket{cfg: cfg, tokens: cfg.Burst}
}

// Take takes one token. When there is none it says after how long there is one, rounded up to a second as a provider
// would; 0 means that the refusal carries no hint.
func (b *Bucket) Take(now time.Time) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now)
	if now.Before(b.bannedTo) {
		b.bannedTo = now.Add(b.cfg.Ban)
		return b.hint(b.cfg.Ban), false
	}
	if b.tokens >= 1 {
		b.tokens--
		return 0, true
	}
	if b.cfg.Ban > 0 {
		b.bannedTo = now.Add(b.cfg.Ban)
		return b.hint(b.cfg.Ban), false
	}
	rate := b.cfg.RPM / 60 * (1 - b.outside(now))
	if rate <= 0 {
		return b.hint(b.cfg.OutsideStep), false
	}
	return b.hint(time.Duration((1 - b.tokens) / rate * float64(time.Second))), false
}

// Peek reports whether Take would give a token, and else after how long it would, without a provider's rounding. It
// takes nothing and provokes no ban.
func (b *Bucket) Peek(now time.Time) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refill(now)
	if left := b.bannedTo.Sub(now); left > 0 {
		return left, false
	}
	if b.tokens >= 1 {
		return 0, true
	}
	rate := b.cfg.RPM / 60 * (1 - b.outside(now))
	if rate <= 0 {
		return b.cfg.OutsideStep, false
	}
	return time.Duration((1 - b.tokens) / rate * float64(time.Second)), false
}

// Reset fills the bucket and lifts a ban.
func (b *Bucket) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens, b.began, b.at, b.bannedTo = b.cfg.Burst, time.Time{}, time.Time{}, time.Time{}
}

func (b *Bucket) hint(d time.Duration) time.Duration {
	if b.cfg.NoHint {
		return 0
	}
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}

// refill walks the steps of outside load between the last look and now.
func (b *Bucket) refill(now time.Time) {
	if b.at.IsZero() {
		b.began, b.at = now, now
		return
	}
	for b.at.Before(now) {
		step := b.at.Sub(b.began)/b.cfg.OutsideStep + 1
		end := b.began.Add(step * b.cfg.OutsideStep)
		if end.After(now) {
			end = now
		}
		rate := b.cfg.RPM / 60 * (1 - b.outside(b.at))
		b.tokens = min(b.cfg.Burst, b.tokens+rate*end.Sub(b.at).Seconds())
		b.at = end
	}
}

func (b *Bucket) outside(t time.Time) float64 {
	if b.cfg.OutsideMax == 0 {
		return 0
	}
	step := uint64(t.Sub(b.began) / b.cfg.OutsideStep)
	return b.cfg.OutsideMax * Chance(b.cfg.Seed, step)
}

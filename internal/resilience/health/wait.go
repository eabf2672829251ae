package health

import (
	"math"
	"time"
)

const (
	numClasses = 10 // 1 KiB, 4 KiB ... 256 MiB
	numBuckets = 88 // quarter octaves from 1 ms: up to 2^22 ms = 70 min
	sliceFor   = 10 * time.Minute
	dropAfter  = time.Hour
	cutFactor  = 1.5
)

// sizeClass is k of the prompt size class 4^k KiB: the smallest class that holds the body.
func sizeClass(bytes int) int {
	k, limit := 0, 1<<10
	for bytes > limit && k < numClasses-1 {
		k, limit = k+1, limit*4
	}
	return k
}

// histogram counts waits in quarter octaves. A quantile is interpolated within its bucket, so the error is well below
// the 19 % of a bucket's width.
type histogram struct {
	count   [numBuckets]uint32
	cut     *[numBuckets]uint32 // of count, those that were cut and not seen; nil = none
	n       int
	startAt time.Time
}

// cuts is how many of a bucket's samples were cut.
func (h *histogram) cuts(bucket int) uint32 {
	if h.cut == nil {
		return 0
	}
	return h.cut[bucket]
}

func bucketOf(wait time.Duration) int {
	ms := float64(wait) / float64(time.Millisecond)
	if ms <= 1 {
		return 0
	}
	return min(int(math.Log2(ms)*4), numBuckets-1)
}

// lower is the lower edge of a bucket.
func lower(bucket int) time.Duration {
	return time.Duration(math.Exp2(float64(bucket)/4) * float64(time.Millisecond))
}

// class is what is known about one form and prompt size: two slices of 10 minutes, cuts, and the flights that have no
// content yet, oldest first.
type class struct {
	now, before histogram
	cuts        cuts
	cached      p95 // of both slices, as of cachedN samples; 0 samples = not computed
	cachedN     int

	waiting line // flights without content, ordered by the instant at which they count as silent
}

func (c *class) reset() {
	c.now, c.before, c.cuts, c.cachedN = histogram{}, histogram{}, cuts{}, 0
}

// rotate starts a new slice when the current one is full. What is older than an hour is dropped; a candidate that was
// idle for half an hour still has its last slice, which is better than knowing nothing.
func (c *class) rotate(now time.Time) {
	if c.now.n > 0 && now.Sub(c.now.startAt) >= sliceFor {
		c.before, c.now, c.cachedN = c.now, histogram{}, 0
	}
	if c.before.n > 0 && now.Sub(c.before.startAt) >= dropAfter {
		c.before, c.cachedN = histogram{}, 0
	}
}

func (c *class) add(wait time.Duration, now time.Time) {
	c.rotate(now)
	if c.now.n == 0 {
		c.now.startAt = now
	}
	c.now.count[bucketOf(wait)]++
	c.now.n++
}

// addCut notes an attempt that was not waited for any longer: the answer would have taken longer by an unknown part.
func (c *class) addCut(wait time.Duration, now time.Time) {
	c.cuts.add(wait, now)
	wait = time.Duration(float64(wait) * cutFactor)
	c.add(wait, now)
	if c.now.cut == nil {
		c.now.cut = new([numBuckets]uint32)
	}
	c.now.cut[bucketOf(wait)]++
}

// p95 is a 95th percentile. Guessed says that it lies among waits that were cut: a guess, half as long again as what was
// really waited, which no factor of safety should multiply once more.
type p95 struct {
	wait    time.Duration
	guessed bool
}

// p95 returns the percentile, 0 when there are too few samples, and the number of samples.
func (c *class) p95(cfg *Config, now time.Time) (p95, int) {
	c.rotate(now)
	n := c.now.n + c.before.n
	if n < cfg.MinSamples {
		return p95{}, n
	}
	// One sample moves the percentile of many but little: computed again after every sixteenth part.
	if c.cachedN == 0 || n-c.cachedN > n/16 {
		c.cached, c.cachedN = c.quantile(0.95, n), n
	}
	return c.cached, n
}

func (c *class) quantile(q float64, n int) p95 {
	rank := q * float64(n)
	seen := 0.0
	for b := range numBuckets {
		in := float64(c.now.count[b] + c.before.count[b])
		if in > 0 && seen+in >= rank {
			low, high := lower(b), lower(b+1)
			return p95{wait: low + time.Duration(float64(high-low)*(rank-seen)/in),
				guessed: float64(c.now.cuts(b)+c.before.cuts(b)) > in/2}
		}
		seen += in
	}
	return p95{wait: lower(numBuckets)}
}

// cuts remembers the longest cut of each 10 minutes of the last hour.
type cuts [7]struct {
	wait time.Duration
	at   time.Time
}

func (c *cuts) add(wait time.Duration, now time.Time) {
	slot := &c[(now.Unix()/int64(sliceFor/time.Second))%int64(len(c))]
	if now.Sub(slot.at) > sliceFor || wait >= slot.wait {
		slot.wait, slot.at = wait, now
	}
}

func (c *cuts) longest(now time.Time) (out time.Duration) {
	for i := range c {
		if c[i].wait > out && now.Sub(c[i].at) <= dropAfter {
			out = c[i].wait
		}
	}
	return out
}

// habits are two traits of an upstream, learned per form.
type habits struct {
	early     int       // informative answers in a row whose headers came well before content
	earlyAt   time.Time // the last of them
	late      int       // decaying count of answers after long silence behind early headers
	total     int       // decaying count of answers
	learnedAt time.Time
}

const (
	earlyStreak = 5                // answers in a row
	informative = time.Second      // shorter waits say nothing about headers
	earlyLimit  = 10 * time.Second // headers slower than this make a headers clock of 30 s dangerous
	longThought = 8 * time.Second  // silence that a floor of 10 s would soon cut
	habitWindow = 64
)

// learn folds one answer in: the wait for its headers (0 = unknown) and for its first content. size is the share of
// the wait that the size of the prompt explains.
func (h *habits) learn(headers, content, size time.Duration, now time.Time) {
	switch {
	case headers <= 0 || content < informative:
	case headers*2 <= content && headers <= earlyLimit:
		h.early, h.earlyAt = min(h.early+1, earlyStreak), now
	default:
		h.early = 0
	}
	if now.Sub(h.learnedAt) > dropAfter {
		h.late, h.total = 0, 0
	}
	h.learnedAt = now
	if h.total++; h.total > habitWindow {
		h.total, h.late = h.total/2, h.late/2
	}
	// Long silence behind early headers is thought; late headers are rather a queue in front of the model.
	if headers > 0 && headers*4 <= content && content-size >= longThought {
		h.late++
	}
}

func (h *habits) headersEarly(now time.Time) bool {
	return h.early >= earlyStreak && now.Sub(h.earlyAt) <= dropAfter
}

func (h *habits) thinksSilently(now time.Time) bool {
	return h.late >= 3 && h.late*5 >= h.total && now.Sub(h.learnedAt) <= dropAfter
}

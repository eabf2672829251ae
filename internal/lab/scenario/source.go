package scenario

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"spillway/internal/lab/fault"
	"spillway/internal/lab/wire"
)

// Source describes one fake upstream.
type Source struct {
	Name      string        `yaml:"name"`       // unique
	Provider  string        `yaml:"provider"`   // sources of one provider share a listener, told apart by key or model; "" = a listener of its own
	Port      int           `yaml:"port"`       // 0 = any free one; the first source of a provider decides
	TLS       bool          `yaml:"tls"`        // HTTPS with a certificate made at start
	Seed      uint64        `yaml:"seed"`       // of answers and chances; answers are equal on sources of equal seed
	Tokens    int           `yaml:"tokens"`     // words of an answer; 0 = 60
	Latency   Spread        `yaml:"latency"`    // to the first token; default 0
	Interval  Spread        `yaml:"interval"`   // between tokens; default 0
	Paces     []Pace        `yaml:"paces"`      // other speeds, in windows of time
	Keys      []string      `yaml:"keys"`       // accepted credentials; empty = any
	Models    []string      `yaml:"models"`     // served models; empty = any
	Account   string        `yaml:"account"`    // name of a shared token bucket
	IP        string        `yaml:"ip"`         // name of a shared token bucket
	Success   float64       `yaml:"success"`    // share of requests without a 500, 0-1; 0 is read as 1
	Suffix    string        `yaml:"suffix"`     // put behind the model's name in answers, as dated names are
	NoPrefill bool          `yaml:"no_prefill"` // a trailing assistant message is refused with 400
	Diverges  bool          `yaml:"divergent"`  // its answers differ from those of the others
	Faults    []fault.Fault `yaml:"faults"`

	// Asked is the pool of a recorded log: which of the models that clients ask for the source serves, and under which
	// name. Without it the source serves the combo lab.
	Asked map[string]string `yaml:"asked"`

	// Connection holds fields of the gateway's connection to this source (max_concurrent, timeouts, ...), as in
	// spillway.yaml. The source itself does not read them.
	Connection map[string]any `yaml:"connection"`
}

// Group is the provider, or the source's own name.
func (s Source) Group() string {
	if s.Provider != "" {
		return s.Provider
	}
	return s.Name
}

// Serves is the source's name for a model that a client asks for ("" = lab); "" when it does not serve it.
func (s *Source) Serves(asked string) string {
	if s.Asked == nil {
		return Model
	}
	return s.Asked[asked]
}

// Words is the length of an answer in tokens.
func (s Source) Words() int {
	if s.Tokens > 0 {
		return s.Tokens
	}
	return 60
}

// Script is the fault script of the source; what the short fields say comes last.
func (s Source) Script() *fault.Script {
	list := s.Faults
	if s.NoPrefill {
		list = append(list[:len(list):len(list)], fault.Fault{Kind: fault.PrefillRefused})
	}
	if s.Success > 0 && s.Success < 1 {
		list = append(list[:len(list):len(list)], fault.Fault{Kind: fault.Status, Prob: 1 - s.Success})
	}
	return fault.NewScript(s.Luck(), list)
}

// Luck is the seed of everything that is left to chance at this source. Sources that give equal answers still have
// each its own luck.
func (s Source) Luck() uint64 { return s.Seed ^ hash(s.Name) }

func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// Voice is the seed of the source's answers.
func (s Source) Voice() uint64 {
	if s.Diverges {
		return s.Luck()
	}
	return s.Seed
}

// Answers are the texts with which the source answers a prompt in whole: the usual one, and the short ones of its
// script.
func (s Source) Answers(prompt string) []string {
	out := []string{wire.Text(prompt, s.Voice(), s.Words())}
	for _, f := range s.Faults {
		if f.Kind == fault.Short {
			out = append(out, wire.Text(prompt, s.Voice()^wire.ShortSeed, f.ShortTokens()))
		}
	}
	return out
}

// Validate reports every problem, each beginning with the name of its field.
func (s Source) Validate() error {
	var errs []error
	if s.Name == "" || strings.ContainsAny(s.Name, " /:") {
		errs = append(errs, fmt.Errorf("name: %q must be a word", s.Name))
	}
	if s.Port < 0 || s.Port > 65535 {
		errs = append(errs, errors.New("port: must be between 0 and 65535"))
	}
	if s.Success < 0 || s.Success > 1 {
		errs = append(errs, errors.New("success: must be between 0 and 1"))
	}
	if s.Tokens < 0 {
		errs = append(errs, errors.New("tokens: must not be negative"))
	}
	for i := range s.Paces {
		for _, e := range Split(s.Paces[i].validate()) {
			errs = append(errs, fmt.Errorf("paces[%d].%w", i, e))
		}
	}
	for i := range s.Faults {
		for _, e := range Split(s.Faults[i].Validate()) {
			errs = append(errs, fmt.Errorf("faults[%d].%w", i, e))
		}
	}
	return errors.Join(errs...)
}

// Split takes a joined error apart.
func Split(err error) []error {
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

// Spread is a duration between two bounds, drawn evenly. In files it is "20ms" or "20ms..80ms".
type Spread struct{ Min, Max time.Duration }

// Between returns a Spread.
func Between(lo, hi time.Duration) Spread { return Spread{lo, hi} }

// At is the duration at x in [0, 1).
func (s Spread) At(x float64) time.Duration {
	return s.Min + time.Duration(x*float64(s.Max-s.Min))
}

// Over divides both bounds.
func (s Spread) Over(speed float64) Spread {
	if speed <= 0 {
		return s
	}
	return Spread{time.Duration(float64(s.Min) / speed), time.Duration(float64(s.Max) / speed)}
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Spread) UnmarshalText(b []byte) error {
	lo, hi, two := strings.Cut(string(b), "..")
	if !two {
		hi = lo
	}
	var err1, err2 error
	s.Min, err1 = time.ParseDuration(strings.TrimSpace(lo))
	s.Max, err2 = time.ParseDuration(strings.TrimSpace(hi))
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("%q is not a duration or two with .. between: %w", b, err)
	}
	if s.Min < 0 || s.Max < s.Min {
		return fmt.Errorf("%q: the bounds must not be negative and must rise", b)
	}
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (s Spread) MarshalText() ([]byte, error) {
	if s.Min == s.Max {
		return []byte(s.Min.String()), nil
	}
	return []byte(s.Min.String() + ".." + s.Max.String()), nil
}

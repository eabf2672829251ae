package scenario

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Pace is how fast a source answers in a window of time, by quantiles that stand at equal distances from the least to
// the most. It is what a recorded log gives; people write latency and interval.
type Pace struct {
	After   time.Duration   `yaml:"after"`   // begin of the window, from the source's start; default 0
	For     time.Duration   `yaml:"for"`     // length of the window; 0 = for ever
	Models  []string        `yaml:"models"`  // of answers of these models; empty = all
	Latency []time.Duration `yaml:"latency"` // to the first token
	Length  []time.Duration `yaml:"length"`  // from the first token to the last
}

// PaceAt is the pace of the first window that is open for a model; nil = latency and interval hold.
func (s *Source) PaceAt(elapsed time.Duration, model string) *Pace {
	for i := range s.Paces {
		p := &s.Paces[i]
		if elapsed >= p.After && (p.For == 0 || elapsed < p.After+p.For) && (len(p.Models) == 0 || slices.Contains(p.Models, model)) {
			return p
		}
	}
	return nil
}

// Quantile is the value at x in [0, 1) of a sorted list of quantiles.
func Quantile(list []time.Duration, x float64) time.Duration {
	switch len(list) {
	case 0:
		return 0
	case 1:
		return list[0]
	}
	at := x * float64(len(list)-1)
	i := min(int(at), len(list)-2)
	return list[i] + time.Duration((at-float64(i))*float64(list[i+1]-list[i]))
}

// faster divides the times by speed, not the windows.
func faster(list []Pace, speed float64) []Pace {
	over := func(in []time.Duration) []time.Duration {
		out := slices.Clone(in)
		for i := range out {
			out[i] = time.Duration(float64(out[i]) / speed)
		}
		return out
	}
	out := slices.Clone(list)
	for i := range out {
		out[i].Latency, out[i].Length = over(out[i].Latency), over(out[i].Length)
	}
	return out
}

func (p Pace) validate() error {
	var errs []error
	if p.After < 0 || p.For < 0 {
		errs = append(errs, errors.New("after: after and for must not be negative"))
	}
	for name, list := range map[string][]time.Duration{"latency": p.Latency, "length": p.Length} {
		if !slices.IsSorted(list) || len(list) > 0 && list[0] < 0 {
			errs = append(errs, fmt.Errorf("%s: the quantiles must not be negative and must rise", name))
		}
	}
	return errors.Join(errs...)
}

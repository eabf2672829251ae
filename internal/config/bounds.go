package config

import (
	"fmt"
	"reflect"
	"time"
)

// What is larger than this is a slip of a unit, whatever the setting: rooms with better reasons are stricter.
const (
	mostTime   = 365 * 24 * time.Hour
	mostNumber = 1_000_000_000
)

// tooLarge lists the written values that no setting can mean.
func (s *Settings) tooLarge(prefix string) []Problem {
	if len(s.origins) == 0 {
		return nil
	}
	var out []Problem
	v := reflect.ValueOf(tree{s.Resilience, s.Timeouts})
	for _, l := range settings() {
		if _, written := s.origins[l.path]; !written {
			continue
		}
		if msg := excess(v.FieldByIndex(l.index)); msg != "" {
			out = append(out, s.placed(prefix, l.path, l.path, msg))
		}
	}
	return out
}

func excess(v reflect.Value) string {
	switch {
	case v.Type() == durationType:
		if v.Int() > int64(mostTime) {
			return fmt.Sprintf("must be at most %s, a year", mostTime)
		}
	case v.CanInt() && v.Int() > mostNumber, v.CanFloat() && v.Float() > mostNumber:
		return fmt.Sprintf("must be at most %d", mostNumber)
	}
	return ""
}

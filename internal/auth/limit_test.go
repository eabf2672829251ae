package auth

import (
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
)

// TestP109KeyRPM: a key with 100 requests per minute makes exactly 100 in any minute, however they are spread.
func TestP109KeyRPM(t *testing.T) {
	var l Limiter
	p := &gateway.Principal{Key: "k", KeyHash: [32]byte{1}, RPM: 100}
	other := &gateway.Principal{Key: "o", KeyHash: [32]byte{2}, RPM: 100}
	now := time.Date(2026, 1, 2, 3, 4, 50, 0, time.UTC) // ten seconds before a minute of the clock ends
	var passed []time.Time
	for range 3000 {
		if err := l.Allow(p, now); err == nil {
			passed = append(passed, now)
		} else if err.Code != gateway.OwnRateLimited || err.HTTPStatus() != 429 || err.RetryAfter < time.Second || err.RetryAfter > 61*time.Second {
			t.Fatalf("%+v", err)
		}
		now = now.Add(60 * time.Millisecond) // 1000 a minute, over the ends of three minutes
	}
	for i, at := range passed {
		n := 0
		for _, x := range passed[i:] {
			if x.Sub(at) < time.Minute {
				n++
			}
		}
		if n > 100 {
			t.Fatalf("%d in the minute from %s", n, at)
		}
	}
	if len(passed) < 290 || len(passed) > 300 {
		t.Errorf("%d passed in three minutes", len(passed))
	}
	if l.Allow(other, now) != nil || l.Allow(&gateway.Principal{}, now) != nil {
		t.Error("one key's limit is not another's, and no limit is none")
	}
}

func TestLimiterForgetsIdleKeys(t *testing.T) {
	var l Limiter
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 3 * maxMeters {
		l.Allow(&gateway.Principal{KeyHash: [32]byte{byte(i), byte(i >> 8)}, RPM: 1}, now)
		now = now.Add(time.Second)
	}
	if n := len(l.meters); n > maxMeters+1 {
		t.Errorf("%d keys are remembered", n)
	}
}

// Who is refused for less than a second is told a second, in the header and in words.
func TestRefusedForAMoment(t *testing.T) {
	var l Limiter
	p := &gateway.Principal{RPM: 1}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	_ = l.Allow(p, now)
	err := l.Allow(p, now.Add(time.Minute+300*time.Millisecond))
	if err == nil || err.RetryAfter != time.Second || !strings.Contains(err.Next, "Try again in 1s") {
		t.Errorf("%+v", err)
	}
}

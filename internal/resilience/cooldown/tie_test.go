package cooldown

import (
	"testing"
	"time"
)

// A cooldown that was taken over ends when it should, however the wall clock is set afterwards.
func TestRestoredTimesAreOfTheProcess(t *testing.T) {
	now := time.Now()
	s := state{}.restore(durable{Until: now.Add(time.Minute).Round(0), EpisodeAt: now.Add(-time.Minute).Round(0)}, now)
	if s.Until == s.Until.Round(0) || s.EpisodeAt == s.EpisodeAt.Round(0) || !s.Until.Equal(now.Add(time.Minute)) {
		t.Errorf("%s since %s", s.Until, s.EpisodeAt)
	}
}

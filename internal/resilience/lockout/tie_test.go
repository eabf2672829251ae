package lockout

import (
	"testing"
	"time"
)

// A lock that was taken over ends when it should, however the wall clock is set afterwards.
func TestRestoredTimesAreOfTheProcess(t *testing.T) {
	now := time.Now()
	l := lock{}.restore(lock{Until: now.Add(time.Minute).Round(0), Count: 1}, now)
	if l.Until == l.Until.Round(0) || !l.Until.Equal(now.Add(time.Minute)) {
		t.Errorf("%s", l.Until)
	}
}

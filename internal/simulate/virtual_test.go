package simulate

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestInVirtualTime(t *testing.T) {
	began, wall := time.Time{}, time.Now()
	err := InVirtualTime(func() error {
		began = time.Now()
		time.Sleep(48 * time.Hour)
		if d := time.Since(began); d != 48*time.Hour {
			t.Errorf("slept for %s", d)
		}
		return nil
	})
	if err != nil || time.Since(wall) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(wall))
	}
	fails := errors.New("fails")
	for name, c := range map[string]struct {
		f    func() error
		want string
	}{
		"error":    {func() error { return fails }, "fails"},
		"panic":    {func() error { panic("at the disco") }, "at the disco"},
		"deadlock": {func() error { <-make(chan int); return nil }, "deadlock"},
		"left behind": {func() error {
			go func() { <-make(chan int) }()
			return nil
		}, "blocked goroutines remain"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := InVirtualTime(c.f); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
			if err := InVirtualTime(func() error { time.Sleep(time.Hour); return nil }); err != nil {
				t.Errorf("afterwards nothing works any more: %v", err)
			}
		})
	}
}

package cache

import (
	"net/http"
	"testing"
	"time"

	"spillway/internal/gateway"
)

func TestKeep(t *testing.T) {
	good := Proof{Kind: gateway.Success, Status: 200, Content: true}
	if !good.Keep() {
		t.Error("a whole answer is not kept")
	}
	for name, spoil := range map[string]func(*Proof){
		"status": func(p *Proof) { p.Status = 206 }, "empty": func(p *Proof) { p.Content = false },
		"refused": func(p *Proof) { p.Refused = true }, "token limit": func(p *Proof) { p.Length = true },
		"mended": func(p *Proof) { p.Mended = true }, "unsure": func(p *Proof) { p.Unsure = true }, "nothing known": func(p *Proof) { *p = Proof{} },
	} {
		p := good
		if spoil(&p); p.Keep() {
			t.Errorf("%s: kept", name)
		}
	}
	for k := range gateway.NumKinds {
		p := good
		if p.Kind = k; p.Keep() != (k == gateway.Success) {
			t.Errorf("%s: keep is %t", k, p.Keep())
		}
	}
}

func TestWishOf(t *testing.T) {
	for _, c := range []struct {
		control, pragma string
		want            Wish
	}{
		{"", "", Wish{}},
		{"no-store", "", Wish{NoStore: true}},
		{"No-Cache", "", Wish{NoCache: true}},
		{" private , no-store,no-cache ", "", Wish{NoStore: true, NoCache: true}},
		{"max-age=60", "", Wish{MaxAge: time.Minute, Aged: true}},
		{`max-age="60"`, "", Wish{MaxAge: time.Minute, Aged: true}},
		{"max-age=0", "", Wish{Aged: true, NoCache: true}},
		{"max-age=-1", "", Wish{}},
		{"max-age=99999999999999999999", "", Wish{}},
		{"max-age", "", Wish{}},
		{"", "no-cache", Wish{NoCache: true}},
		{"max-age=5", "no-cache", Wish{MaxAge: 5 * time.Second, Aged: true}},
	} {
		h := http.Header{}
		if c.control != "" {
			h.Set("Cache-Control", c.control)
		}
		if c.pragma != "" {
			h.Set("Pragma", c.pragma)
		}
		if got := WishOf(h); got != c.want {
			t.Errorf("%q, %q: %+v, want %+v", c.control, c.pragma, got, c.want)
		}
	}
	two := http.Header{"Cache-Control": {"max-age=9", "no-store"}}
	if w := WishOf(two); !w.NoStore || w.MaxAge != 9*time.Second {
		t.Errorf("two lines: %+v", w)
	}
	if d := (Wish{Aged: true, MaxAge: time.Hour}).Limit(time.Minute); d != time.Minute {
		t.Errorf("a caller has lengthened the time to live to %s", d)
	}
}

func TestFresh(t *testing.T) {
	at := time.Unix(1000, 0)
	for _, c := range []struct {
		age, limit time.Duration
		want       bool
	}{{0, time.Second, true}, {999 * time.Millisecond, time.Second, true}, {time.Second, time.Second, false}, {-1, time.Second, false}, {0, 0, false}} {
		if got := fresh(at, at.Add(c.age), c.limit); got != c.want {
			t.Errorf("age %s, limit %s: %t", c.age, c.limit, got)
		}
	}
}

func TestPace(t *testing.T) {
	for _, c := range []struct {
		window, end, lead, pos int64
		wait, lost             bool
	}{
		{10, 10, 0, 0, false, false}, {10, 11, 0, 0, true, true}, {10, 11, 1, 0, false, true}, {10, 30, 30, 20, false, false},
		{0, 5, 5, 5, false, false}, {0, 5, 5, 4, false, true}, {0, 5, 4, 4, true, true},
	} {
		if got := mustWait(c.window, c.end, c.lead); got != c.wait {
			t.Errorf("%+v: wait is %t", c, got)
		}
		if got := lost(c.window, c.end, c.pos); got != c.lost {
			t.Errorf("%+v: lost is %t", c, got)
		}
	}
	if !open(10, 0, 10) || open(10, 0, 11) || open(10, 1, 5) {
		t.Error("who may join")
	}
}

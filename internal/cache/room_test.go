package cache

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

var (
	t0   = time.Unix(1_700_000_000, 0)
	good = Proof{Kind: gateway.Success, Status: 200, Content: true}
)

func key(tenant string, n int) Key {
	f := facts()
	f.Principal.Key = gateway.ClientKeyID(tenant)
	f.Envelope.Raw = fmt.Appendf(nil, `{"model":"m","n":%d}`, n)
	return KeyOf(f)
}

func record(r *Room, k Key, body string, at time.Time, most int64, p Proof) bool {
	c := r.Copy(most)
	defer c.Close()
	for i := 0; i < len(body); i += 100 {
		c.Add([]byte(body[i:min(i+100, len(body))]))
	}
	return r.Record(k, Entry{At: at, Request: "req"}, c, p)
}

func TestRoomKeepsTheNewest(t *testing.T) {
	r := New(nil)
	k := key("dev", 1)
	if record(r, k, "x", t0, 100, good) || r.Load(k, time.Hour, t0) != nil {
		t.Fatal("a room that is off keeps something")
	}
	r.Configure(1 << 20)
	record(r, k, "old", t0, 100, good)
	record(r, k, "new", t0.Add(time.Second), 100, good)
	if e := r.Load(k, time.Minute, t0.Add(2*time.Second)); e == nil || string(e.Body) != "new" {
		t.Errorf("got %+v", e)
	}
	if record(r, k, "bad", t0, 100, Proof{}) || record(r, k, "", t0, 100, good) || record(r, k, strings.Repeat("x", 101), t0, 100, good) {
		t.Error("what has no proof, nothing in it or no room was kept")
	}
	if e := r.Load(k, time.Minute, t0.Add(2*time.Second)); e == nil || string(e.Body) != "new" {
		t.Error("what is not kept has replaced what was")
	}
	if e := r.Load(k, time.Minute, t0.Add(61*time.Second)); e != nil {
		t.Error("served beyond its time")
	}
	r.Configure(0)
	if s := r.Snapshot(); s.Entries != 0 || s.Bytes != 0 {
		t.Errorf("a room that is off holds %+v", s)
	}
}

// Whatever happens: the bytes stay within their bound, and a key has only what was recorded under it last, young enough.
func TestRoomProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := New(nil)
		limit := int64(rapid.IntRange(0, 40_000).Draw(t, "limit"))
		r.Configure(limit)
		type want struct {
			body string
			at   time.Time
		}
		last := map[Key]want{}
		now := t0
		var open []*Copy
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "gap")) * time.Second)
			tenant := rapid.SampledFrom([]string{"", "dev", "ops"}).Draw(t, "tenant")
			k := key(tenant, rapid.IntRange(0, 4).Draw(t, "question"))
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				body := tenant + "|" + strings.Repeat("x", rapid.IntRange(0, 6000).Draw(t, "size"))
				p := good
				p.Refused = rapid.Bool().Draw(t, "refused")
				if record(r, k, body, now, 5000, p) {
					if p.Refused || len(body) > 5000 {
						t.Fatal("kept what must not be")
					}
					last[k] = want{body, now}
				} else if e := r.entries[k]; e == nil {
					delete(last, k)
				}
			case 2, 3:
				ttl := time.Duration(rapid.IntRange(0, 60).Draw(t, "ttl")) * time.Second
				if e := r.Load(k, ttl, now); e != nil {
					w := last[k]
					if string(e.Body) != w.body || now.Sub(e.At) >= ttl || !e.At.Equal(w.at) || !strings.HasPrefix(string(e.Body), tenant+"|") {
						t.Fatalf("got %.20q of %s, want %.20q of %s, limit %s", e.Body, e.At, w.body, w.at, ttl)
					}
				}
			case 4: // a copy that is under way
				c := r.Copy(10_000)
				c.Add(make([]byte, rapid.IntRange(0, 9000).Draw(t, "copied")))
				open = append(open, c)
			case 5:
				for _, c := range open {
					c.Close()
				}
				open = nil
				limit = int64(rapid.IntRange(0, 40_000).Draw(t, "limit"))
				r.Configure(limit)
			}
			if s := r.Snapshot(); s.Bytes > limit || s.Bytes < 0 {
				t.Fatalf("%d bytes of %d", s.Bytes, limit)
			}
		}
		for _, c := range open {
			c.Close()
		}
		r.Configure(0)
		if r.used != 0 || r.copying != 0 || r.newest != nil || r.oldest != nil || len(r.entries) != 0 {
			t.Fatalf("not given back: %+v", r.Snapshot())
		}
	})
}

// Copies use the memory of those before them; what is kept has its own.
func TestCopiesUseTheirMemoryAgain(t *testing.T) {
	r := New(nil)
	r.Configure(1 << 20)
	for n := range 50 {
		size := 100 * (n%7 + 1)
		if n%10 == 0 {
			size = 2 * keptCopy // more than is used again
		}
		if !record(r, key("dev", n), strings.Repeat(string(rune('a'+n%26)), size), t0, 1<<16, good) {
			t.Fatalf("answer %d was not kept", n)
		}
		given := r.Copy(10)
		given.Add([]byte("too much for it"))
		given.Close()
	}
	for n := range 50 {
		e := r.Load(key("dev", n), time.Hour, t0)
		if e == nil || strings.Trim(string(e.Body), string(rune('a'+n%26))) != "" {
			t.Fatalf("answer %d was written over", n)
		}
	}
	if s := r.Snapshot(); s.Bytes >= 1<<20 || s.Entries != 50 {
		t.Errorf("%+v", s)
	}
	if n := testing.AllocsPerRun(100, func() {
		c := r.Copy(1 << 16)
		c.Add([]byte("some"))
		c.Add([]byte("thing"))
		c.Close()
	}); n > 2 {
		t.Errorf("a copy that is not kept makes %v allocations", n)
	}
}

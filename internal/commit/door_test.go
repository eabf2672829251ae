package commit

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
	"spillway/internal/protocol/families"
)

// client is a ResponseWriter that notes when what was written, and can be gone.
type client struct {
	mu        sync.Mutex
	began     time.Time
	header    http.Header
	status    int
	statuses  int
	writes    []written
	flushes   int
	deadlines []time.Time
	gone      error
	onWrite   func()
}

type written struct {
	at   time.Duration
	text string
}

func newClient() *client { return &client{began: time.Now(), header: http.Header{}} }

func (c *client) Header() http.Header { return c.header }

func (c *client) WriteHeader(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
	c.statuses++
}

func (c *client) Write(p []byte) (int, error) {
	if c.onWrite != nil {
		c.onWrite()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone != nil {
		return 0, c.gone
	}
	c.writes = append(c.writes, written{time.Since(c.began), string(p)})
	return len(p), nil
}

func (c *client) FlushError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushes++
	return nil
}

func (c *client) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadlines = append(c.deadlines, t)
	return nil
}

func (c *client) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, w := range c.writes {
		b.WriteString(w.text)
	}
	return b.String()
}

// list are the writes so far.
func (c *client) list() []written {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

// comments are the instants of heartbeats, in whole seconds.
func (c *client) comments() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var at []int
	for _, w := range c.writes {
		if isComment(w.text) {
			at = append(at, int(w.at.Seconds()))
		}
	}
	return at
}

func isComment(s string) bool { return strings.HasPrefix(s, ":") && strings.HasSuffix(s, "\n\n") }

func open(c *client, stream bool, early string) *Door {
	return New(Options{Writer: c, Family: families.For(gateway.OpenAI), Stream: stream, Early: early,
		Headers: func(h http.Header, a *gateway.Answer) {
			h.Set("X-Test", "early")
			if a != nil {
				h.Set("X-Test", "answer")
			}
		}})
}

func streamed(body string) *gateway.Answer {
	return &gateway.Answer{Status: 200, Stream: true, Body: []byte(body)}
}

var broken = &gateway.Error{Code: gateway.UpstreamStreamError, Message: "the answer broke off"}

const event = "data: {\"x\":1}\n\n"

func bubble(t *testing.T, f func(t *testing.T, c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newClient()) })
}

func equal(t *testing.T, what string, have []int, want ...int) {
	t.Helper()
	if len(have) != len(want) {
		t.Fatalf("%s at %v s, want %v", what, have, want)
	}
	for i := range want {
		if have[i] != want[i] {
			t.Fatalf("%s at %v s, want %v", what, have, want)
		}
	}
}

func TestWholeAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, c *client) {
		d := open(c, false, "")
		defer d.Close()
		if d.Opened() || d.Committed() {
			t.Error("a new door is pending")
		}
		if err := d.Commit(&gateway.Answer{Status: 201, Body: []byte(`{"a":1}`)}); err != nil {
			t.Fatal(err)
		}
		if !d.Opened() || !d.Committed() || c.status != 201 || c.all() != `{"a":1}` || c.header.Get("X-Test") != "answer" {
			t.Errorf("status %d, body %q, header %v", c.status, c.all(), c.header)
		}
		if c.header.Get("Content-Type") != "" || c.flushes != 0 || len(c.deadlines) != 0 {
			t.Errorf("a whole answer is no stream: %v, %d flushes, %d deadlines", c.header, c.flushes, len(c.deadlines))
		}
		if err := d.Fail(broken, nil); err == nil || c.all() != `{"a":1}` {
			t.Errorf("an error was written into a whole answer: %v %q", err, c.all())
		}
	})
}

func TestStream(t *testing.T) {
	bubble(t, func(t *testing.T, c *client) {
		d := open(c, true, "")
		defer d.Close()
		if err := d.Commit(streamed(event)); err != nil {
			t.Fatal(err)
		}
		if err := d.Write([]byte(event+event), time.Now()); err != nil {
			t.Fatal(err)
		}
		if c.all() != event+event+event || c.flushes != 2 || c.statuses != 1 {
			t.Errorf("%q, %d flushes, %d times a status", c.all(), c.flushes, c.statuses)
		}
		for name, want := range map[string]string{"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"} {
			if have := c.header.Get(name); have != want {
				t.Errorf("%s: %q", name, have)
			}
		}
	})
}

// TestEarlyCommit: the 200 goes out 45 s after the begin, and only when no untried candidate is left.
func TestEarlyCommit(t *testing.T) {
	for _, row := range []struct {
		name    string
		early   string
		noneAt  time.Duration // when NoneLeft is told; < 0 = never
		opensAt time.Duration // 0 = never
	}{
		{"auto with none left from the start", "auto", 0, 45 * time.Second},
		{"the default is auto", "", 0, 45 * time.Second},
		{"an unknown word is auto", "sometimes", 0, 45 * time.Second},
		{"auto with none left later", "auto", 70500 * time.Millisecond, 71 * time.Second},
		{"auto while a candidate is untried", "auto", -1, 0},
		{"off", "off", 0, 0},
		{"on", "on", -1, time.Millisecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *client) {
				d := open(c, true, row.early)
				defer d.Close()
				if row.noneAt >= 0 {
					time.AfterFunc(row.noneAt, d.NoneLeft)
				}
				if row.opensAt > 0 {
					time.Sleep(row.opensAt - time.Millisecond)
					synctest.Wait()
					if row.early != "on" && d.Opened() {
						t.Fatal("opened too early")
					}
					time.Sleep(2 * time.Millisecond)
					synctest.Wait()
					if !d.Opened() || d.Committed() || c.status != 200 || !isComment(c.all()) || c.header.Get("X-Test") != "early" {
						t.Errorf("opened %t, committed %t, status %d, %q", d.Opened(), d.Committed(), c.status, c.all())
					}
					return
				}
				time.Sleep(5 * time.Minute)
				if d.Opened() || c.all() != "" {
					t.Errorf("opened: %q", c.all())
				}
			})
		})
	}
}

// TestP55KeepAliveWhileWaiting: a waiting client sees a comment every 15 s, then the answer, with one status.
func TestP55KeepAliveWhileWaiting(t *testing.T) {
	bubble(t, func(t *testing.T, c *client) {
		d := open(c, true, "")
		defer d.Close()
		d.NoneLeft()
		time.Sleep(100 * time.Second)
		equal(t, "comments", c.comments(), 45, 60, 75, 90)
		if err := d.Commit(streamed(event)); err != nil || !d.Committed() {
			t.Fatal(err)
		}
		if c.statuses != 1 || !strings.HasSuffix(c.all(), "\n\n"+event) {
			t.Errorf("%d statuses, %q", c.statuses, c.all())
		}
	})
}

// TestHeartbeatsOnlyInSilence: 15 s after the last write, not before, and not while events come.
func TestHeartbeatsOnlyInSilence(t *testing.T) {
	bubble(t, func(t *testing.T, c *client) {
		d := open(c, true, "")
		defer d.Close()
		if err := d.Commit(streamed(event)); err != nil {
			t.Fatal(err)
		}
		for range 10 { // 0 to 100 s
			time.Sleep(10 * time.Second)
			if err := d.Write([]byte(event), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		equal(t, "comments", c.comments())
		time.Sleep(50 * time.Second)
		equal(t, "comments", c.comments(), 115, 130, 145)
		if err := d.Write([]byte(event), time.Now()); err != nil { // at 150 s
			t.Fatal(err)
		}
		time.Sleep(16 * time.Second)
		equal(t, "comments", c.comments(), 115, 130, 145, 165)
	})
}

// TestNeverInsideAnEvent: whatever writes holds the door, so no comment splits an event that a slow client takes long for.
func TestNeverInsideAnEvent(t *testing.T) {
	bubble(t, func(t *testing.T, c *client) {
		d := open(c, true, "")
		defer d.Close()
		free := 0
		c.onWrite = func() {
			if d.mu.TryLock() {
				d.mu.Unlock()
				free++
			}
		}
		if err := d.Commit(streamed(event)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := errors.Join(d.Write([]byte(event), time.Now()), d.Fail(broken, nil)); err != nil {
			t.Fatal(err)
		}
		if free != 0 || len(c.list()) < 6 {
			t.Errorf("%d of %d writes left the door open to others", free, len(c.list()))
		}
	})
}

// TestFail: a stream ends with an error in the client's own protocol, and nothing follows.
func TestFail(t *testing.T) {
	for p := range gateway.NumProtocols {
		for _, committed := range []bool{false, true} {
			bubble(t, func(t *testing.T, c *client) {
				family := families.For(p)
				d := New(Options{Writer: c, Family: family, Stream: true, Headers: func(http.Header, *gateway.Answer) {}})
				defer d.Close()
				var st *protocol.StreamState
				if committed {
					st = &protocol.StreamState{}
					if err := d.Commit(streamed(event)); err != nil {
						t.Fatal(err)
					}
				} else {
					d.NoneLeft()
					time.Sleep(46 * time.Second)
				}
				before := len(c.list())
				if err := d.Fail(broken, st); err != nil {
					t.Fatalf("%s: %v", p, err)
				}
				again := protocol.StreamState{Created: d.began.Unix()}
				want := string(family.StreamError(nil, broken, &again))
				if have := c.list()[before].text; have != want || !strings.Contains(have, broken.Message) {
					t.Errorf("%s: %q, want %q", p, have, want)
				}
				time.Sleep(2 * time.Minute)
				if err := d.Write([]byte(event), time.Now()); err == nil || len(c.list()) != before+1 {
					t.Errorf("%s: something follows the error: %+v", p, c.list()[before:])
				}
			})
		}
	}
}

func TestFailOfAPendingDoor(t *testing.T) {
	bubble(t, func(t *testing.T, c *client) {
		d := open(c, true, "")
		defer d.Close()
		if err := d.Fail(broken, nil); err == nil || c.status != 0 {
			t.Error("a pending door sent an error in-band: its status can still be right")
		}
		if err := d.Commit(streamed(event)); err != nil {
			t.Errorf("the refused error closed the door: %v", err)
		}
	})
}

// TestClose is idempotent, leaves no timer behind (the bubble would not end) and lets nothing through.
func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T, c *client) {
		d := open(c, true, "")
		if err := d.Commit(streamed(event)); err != nil {
			t.Fatal(err)
		}
		d.Close()
		d.Close()
		time.Sleep(time.Hour)
		if c.all() != event {
			t.Errorf("written behind the end: %q", c.all())
		}
		for name, err := range map[string]error{"commit": d.Commit(streamed(event)), "write": d.Write([]byte(event), time.Now()), "fail": d.Fail(broken, nil)} {
			if err == nil {
				t.Errorf("%s on a closed door", name)
			}
		}
		if last := c.deadlines[len(c.deadlines)-1]; !last.IsZero() {
			t.Errorf("the connection keeps the deadline %s", last)
		}
	})
}

func TestCloseOfAPendingDoor(t *testing.T) {
	bubble(t, func(t *testing.T, c *client) {
		d := open(c, true, "on")
		d.Close()
		time.Sleep(time.Minute)
		if c.status != 0 || c.all() != "" || len(c.deadlines) != 0 {
			t.Errorf("a closed door opened: %d %q", c.status, c.all())
		}
	})
}

// TestClientGone: the error of the socket reaches the caller, before and after the commit; heartbeats bear it.
func TestClientGone(t *testing.T) {
	bubble(t, func(t *testing.T, c *client) {
		gone := errors.New("broken pipe")
		d := open(c, true, "")
		defer d.Close()
		if err := d.Commit(streamed(event)); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		c.gone = gone
		c.mu.Unlock()
		time.Sleep(time.Minute)
		if err := d.Write([]byte(event), time.Now()); !errors.Is(err, gone) {
			t.Errorf("write: %v", err)
		}
		if err := d.Fail(broken, nil); !errors.Is(err, gone) {
			t.Errorf("fail: %v", err)
		}
	})
	bubble(t, func(t *testing.T, c *client) {
		c.gone = errors.New("broken pipe")
		d := open(c, true, "")
		defer d.Close()
		if err := d.Commit(streamed(event)); !errors.Is(err, c.gone) {
			t.Errorf("commit: %v", err)
		}
	})
}

// TestWriteDeadline: a client that takes nothing is given five minutes; the deadline moves on with the stream.
func TestWriteDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, c *client) {
		d := open(c, true, "")
		defer d.Close()
		if err := d.Commit(streamed(event)); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			time.Sleep(10 * time.Second)
			if err := d.Write([]byte(event), time.Now()); err != nil {
				t.Fatal(err)
			}
			if left := time.Until(c.deadlines[len(c.deadlines)-1]); left < writeLimit/2 || left > writeLimit {
				t.Fatalf("%s left to write", left)
			}
		}
		if n := len(c.deadlines); n > 20 {
			t.Errorf("%d deadlines for 101 writes", n)
		}
	})
	bubble(t, func(t *testing.T, c *client) { // a large whole answer has one as well
		d := open(c, false, "")
		defer d.Close()
		if err := d.Commit(&gateway.Answer{Status: 200, Body: make([]byte, smallWrite+1)}); err != nil || len(c.deadlines) != 1 {
			t.Errorf("%v, %d deadlines", err, len(c.deadlines))
		}
	})
}

package app

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
)

// stage is a phase of a request in which its client may leave.
type stage struct {
	name  string
	setUp func(b *bubble) // sources, gateway and whatever makes the request be in that phase
	after time.Duration   // when the client leaves
	whole bool            // also for a request that is not streamed
	reach int             // attempts that upstream `a` has seen by then
	out   bool            // what came before it left isolates something
}

func stages() []stage {
	one := func(f ...lab.Fault) func(*bubble) {
		return func(b *bubble) {
			b.Source("a", f...)
			b.Open(providers("a") + combo("a"))
		}
	}
	return []stage{
		{name: "while queued", after: 5 * time.Second, whole: true, reach: 1, setUp: func(b *bubble) {
			b.Source("a", lab.Fault{Kind: fault.Trickle, Interval: time.Second})
			b.Open("providers:\n" + provider("a") + "connections:\n  - {id: a, provider: a, key: k, max_concurrent: 1}\n" + combo("a"))
			b.background(chat(true))
		}},
		{name: "during connect", after: 3 * time.Second, whole: true, setUp: func(b *bubble) {
			b.lenient = true
			b.Source("a")
			b.net.Break("a.test", silentDial)
			b.Open(providers("a") + combo("a"))
		}},
		{name: "before headers", after: 4 * time.Second, whole: true, reach: 1, setUp: one(always(fault.Silence))},
		{name: "before content", after: 4 * time.Second, whole: true, reach: 1, setUp: one(always(fault.Stall))},
		{name: "mid-stream", after: 4 * time.Second, reach: 1, setUp: one(lab.Fault{Kind: fault.Trickle, Interval: time.Second})},
		{name: "during a stall", after: 20 * time.Second, reach: 1, setUp: one(lab.Fault{Kind: fault.Stall, Tokens: 20})},
		{name: "kept alive early", after: 70 * time.Second, reach: 1, setUp: one(always(fault.Silence))},
		{name: "during back-off", after: 600 * time.Millisecond, whole: true, reach: 2, setUp: one(lab.Fault{Kind: fault.Status, Status: 500})},
		{name: "waiting for a cooldown", out: true, after: 5 * time.Second, whole: true, reach: 1, setUp: one(lab.Fault{Kind: fault.RateLimit, RetryAfter: 20 * time.Second})},
	}
}

// background asks and lets the request run on; the bubble waits for it at its end.
func (b *bubble) background(q client.Request) {
	b.running.Go(func() { b.Ask(q) })
	time.Sleep(100 * time.Millisecond)
}

// P56 and P57: a client that leaves in any phase ends the work upstream within a second, gives everything back, and
// teaches nothing.
func TestP56ClientLeavesInEveryPhase(t *testing.T) {
	for _, s := range stages() {
		for _, stream := range []bool{true, false} {
			if !stream && !s.whole {
				continue
			}
			t.Run(fmt.Sprintf("%s/stream=%t", s.name, stream), func(t *testing.T) {
				inBubble(t, func(t *testing.T, b *bubble) {
					s.setUp(b)
					ctx, cancel := context.WithCancelCause(t.Context())
					time.AfterFunc(s.after, func() { cancel(errGaveUp) })
					r := b.AskCtx(ctx, chat(stream))
					if r.End == client.Complete {
						t.Fatalf("the client had left: %s", describe(r))
					}
					left := time.Now()
					synctest.Wait()
					time.Sleep(time.Second)
					synctest.Wait()
					b.leftBehind(s.reach, left)
					if !s.out {
						b.NothingOut()
					}
				})
			})
		}
	}
}

// leftBehind checks what a client that left at a time leaves behind.
func (b *bubble) leftBehind(reach int, left time.Time) {
	b.t.Helper()
	attempts := b.ups["a"].source.Attempts(time.Now())
	if len(attempts) != reach {
		b.t.Errorf("upstream saw %d attempts, want %d", len(attempts), reach)
	}
	for _, a := range attempts {
		if background := b.running.n > 0 && a.N == 1; background {
			continue
		}
		if a.EndedAt.IsZero() || a.EndedAt.Sub(left) > time.Second {
			b.t.Errorf("the upstream still works for a client that left")
		}
	}
	found := false
	for _, j := range b.Journeys() {
		if j.Code != gateway.ClientGone.String() {
			continue
		}
		found = true
		for _, a := range j.Attempts {
			if a.Kind != gateway.Canceled && a.Status < 400 {
				b.t.Errorf("the attempt ended as %s (%s), want canceled", a.Kind, a.Reason)
			}
		}
	}
	if !found {
		b.t.Errorf("no decision log says that the client left: %s", b.Story())
	}
	if n := b.app.rooms.queues.Len(); n != 0 {
		b.t.Errorf("%d requests still wait in line", n)
	}
}

// A client that breaks off while it sends its body holds nothing.
func TestClientLeavesWhileItSends(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a")
		b.Open(providers("a") + combo("a"))
		c, err := b.net.Dial(t.Context(), "tcp", "127.0.0.1:4000")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:4000\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{\"model\":")
		synctest.Wait()
		if n := b.app.Buffered(); n != 100000 {
			t.Errorf("%d bytes counted while the body comes, want 100000", n)
		}
		_ = c.Close()
		time.Sleep(time.Second)
		if n := len(b.Calls("a")); n != 0 {
			t.Errorf("half a body caused %d attempts", n)
		}
	})
}

// A client that sends half a body and then nothing is refused after a while instead of holding memory for ever.
func TestClientStopsSending(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Source("a")
		b.Open(providers("a") + combo("a"))
		c, err := b.net.Dial(t.Context(), "tcp", "127.0.0.1:4000")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:4000\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{\"model\":")
		began := time.Now()
		buf := make([]byte, 4096)
		n, err := c.Read(buf)
		if err != nil || !statusLine(string(buf[:n]), 408) {
			t.Errorf("got %q, %v; want a 408", buf[:n], err)
		}
		if d := time.Since(began); d > 2*time.Minute {
			t.Errorf("after %s", d)
		}
	})
}

func statusLine(s string, status int) bool {
	want := fmt.Sprintf("HTTP/1.1 %d ", status)
	return len(s) > len(want) && s[:len(want)] == want
}

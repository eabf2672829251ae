package attempt

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

// rude panics somewhere on the way of an attempt.
type rude struct {
	*track
	stage string
	on    gateway.ConnectionID
	fired *atomic.Int32
}

func boom(fired *atomic.Int32, stage string) {
	fired.Add(1)
	panic(stage)
}

func (r *rude) For(c *gateway.Connection) (http.RoundTripper, error) {
	if c.ID == r.on && r.stage == "sender" {
		boom(r.fired, r.stage)
	}
	rt, err := r.track.For(c)
	return &rudeWire{rt, r, c.ID}, err
}

type rudeWire struct {
	http.RoundTripper
	r  *rude
	id gateway.ConnectionID
}

func (w *rudeWire) RoundTrip(req *http.Request) (*http.Response, error) {
	if w.id == w.r.on && w.r.stage == "transport" {
		boom(w.r.fired, w.r.stage)
	}
	res, err := w.RoundTripper.RoundTrip(req)
	if res != nil && w.id == w.r.on {
		res.Body = &rudeBody{res.Body, w.r.stage, w.r.fired, 0}
	}
	return res, err
}

type rudeBody struct {
	io.ReadCloser
	stage string
	fired *atomic.Int32
	n     int
}

func (b *rudeBody) Read(p []byte) (int, error) {
	if b.n++; b.stage == "head" || b.stage == "stream" && b.n > 1 {
		boom(b.fired, b.stage)
	}
	if b.stage == "stream" && len(p) > 150 {
		p = p[:150] // the first event, and not the last one
	}
	return b.ReadCloser.Read(p)
}

// rudeDoor panics when the client is written to.
type rudeDoor struct {
	client
	stage string
	fired *atomic.Int32
}

func (d *rudeDoor) Commit(a *gateway.Answer) error {
	if d.stage == "commit" {
		boom(d.fired, d.stage)
	}
	return d.client.Commit(a)
}

func (d *rudeDoor) Write(events []byte, now time.Time) error {
	if d.stage == "write" {
		boom(d.fired, d.stage)
	}
	return d.client.Write(events, now)
}

var _ Door = (*rudeDoor)(nil)

// Resilience 12.6: wherever something panics, what the request has taken comes back and nobody is blamed for it.
func TestPanicsGiveEverythingBack(t *testing.T) {
	for _, stage := range []string{"sender", "transport", "head", "stream", "commit", "write"} {
		for _, on := range []gateway.ConnectionID{"probe", "other"} {
			t.Run(stage+" on "+string(on), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					probe := script{time.Second, 200}
					if on == "other" {
						probe = script{} // silent: the other one starts beside it
					}
					tr := newTrack(t, probe, script{time.Second, 200})
					fired := new(atomic.Int32)
					tr.engine.Sender = &rude{tr, stage, on, fired}
					before := tr.other.Health.View(time.Now()).Success
					func() {
						defer func() { _ = recover() }()
						tr.askAt(&rudeDoor{stage: stage, fired: fired})
					}()
					if fired.Load() == 0 {
						t.Fatal("nothing panicked")
					}
					tr.nothingHeld()
					if r := tr.other.Breaker.Peek(nil, time.Now()); !r.OK() {
						t.Errorf("the other is out: %+v", r)
					}
					if v := tr.other.Health.View(time.Now()); v.Success != before {
						t.Errorf("health of the other fell to %v", v.Success)
					}
					// Whatever the probe came to, another request may probe in time: no permit is lost.
					time.Sleep(10 * time.Minute)
					if r := tr.probe.Breaker.Peek(&resilience.Ask{Fallbacks: 1, AttemptsLeft: 5}, time.Now()); !r.OK() {
						t.Errorf("the probe's permit is lost: %+v", r)
					}
					for _, s := range tr.breaker.Status(time.Now()) {
						if s.Detail["probes"] != "" {
							t.Errorf("a probe is still counted: %+v", s)
						}
					}
				})
			})
		}
	}
}

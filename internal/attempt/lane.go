package attempt

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/gateway"
	"spillway/internal/resilience/lane"
)

// enter puts the attempt into the slow lane, when its connection's is open.
func (f *flight) enter(h http.Header) {
	if name, value, ok := f.candidate.Lane.Slow(f.attempt.BeganAt); ok {
		f.slow = true
		h[name] = []string{value}
	}
}

// atWall asks the lane of the connection what an answer means for it. When the same account is to be asked again, the
// attempt has met a wall that its request is about to pass: no room learns from it.
func (f *flight) atWall(o gateway.Outcome, now time.Time) gateway.Outcome {
	if f.response == nil || o.Kind == gateway.Canceled {
		return o
	}
	h, r := f.candidate.Lane, f.run
	a := lane.Attempt{Status: f.response.StatusCode, Header: f.response.Header, Slow: f.slow, Jitter: r.jitter()}
	if !f.raced { // a raced attempt runs beside its request and decides nothing for it
		a.Waited, a.Again = r.laneWaited, r.mayRepeat()
		if !r.deadline.IsZero() {
			a.Left = max(r.deadline.Sub(now), time.Millisecond)
		}
	}
	move := h.Answered(&a, now)
	if move.Do == lane.AskReset {
		c := f.reset(h)
		now = time.Now()
		move = h.Claimed(&a, c, now)
	}
	if move.Do != lane.Again {
		return o
	}
	f.again = move
	o.Kind, o.Scope, o.Reason, o.Uncounted = gateway.RateLimited, gateway.ScopeAccount, move.Was, true
	o.RetryAfter, o.Hint = 0, gateway.HintNone
	return o
}

// mayRepeat reports whether another attempt may follow the one that is ending. A wall costs nothing of the budget, but it
// is an attempt to a combo that bounds them.
func (r *run) mayRepeat() bool {
	w := &r.job.Walk
	return r.parent.Err() == nil && (w.AttemptMax == 0 || len(r.history)-w.Earlier < w.AttemptMax)
}

// repeat makes the attempt that a lane has asked for: the same candidate, behind a wait that holds nothing. It returns nil
// when the candidate was lost meanwhile, or the client left.
func (r *run) repeat(f *flight) *flight {
	move := f.again
	if move.After > 0 {
		began := time.Now()
		ok := r.pause(move.After, gateway.WaitForLane)
		r.laneWaited += time.Since(began)
		r.walkAt = time.Now() // the pool was not refusing meanwhile: nobody asked it
		if !ok {
			return nil
		}
	}
	step := next.Step{Do: next.TryNow, ID: f.candidate.ID, Why: move.Why}
	g := r.admit(step)
	if g == nil {
		return nil
	}
	r.launched(g, step)
	return g
}

// resetLimit bounds the calls for a reset together, and what is read of their answers.
const (
	resetLimit = 10 * time.Second
	resetBytes = 64 << 10
)

// reset asks the provider for a reset of the account's limit: whether one is to be had, and then for it.
func (f *flight) reset(h *lane.Handle) lane.Claim {
	ctx, cancel := context.WithTimeout(f.run.parent, resetLimit)
	defer cancel()
	status, body, err := f.side(ctx, http.MethodGet, h.OfferPath(), nil)
	if err != nil || status != http.StatusOK {
		return f.noReset("asking for a reset", status, err)
	}
	available, c := h.Terms().ReadOffer(body)
	if !available {
		return c
	}
	status, body, err = f.side(ctx, http.MethodPost, h.ClaimPath(), []byte(`{"program":`+strconv.Quote(h.Terms().Program)+`}`))
	if err != nil {
		return f.noReset("claiming a reset", status, err)
	}
	c = h.Terms().ReadClaim(status, body)
	f.run.engine.Log.Info("a reset of a usage limit was claimed", "connection", f.candidate.Candidate.Connection.ID, "status", status, "reset", c.Done)
	return c
}

func (f *flight) noReset(what string, status int, err error) lane.Claim {
	f.run.engine.Log.Warn(what+" at a usage wall", "connection", f.candidate.Candidate.Connection.ID, "status", status, "err", err)
	return lane.Claim{Failed: true}
}

// side makes a call beside the attempt, to the same host with the same key.
func (f *flight) side(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	c := f.candidate.Candidate
	rt, err := f.run.engine.Sender.For(c.Connection)
	if err != nil {
		return 0, nil, err
	}
	at, err := url.Parse(c.Connection.Provider.BaseURL)
	if err != nil {
		return 0, nil, err
	}
	below, query, _ := strings.Cut(path, "?")
	req, err := http.NewRequestWithContext(ctx, method, (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: below, RawQuery: query}).String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	for name, value := range c.Connection.Provider.Headers {
		req.Header.Set(name, value)
	}
	for _, name := range []string{"Anthropic-Beta", "Anthropic-Version"} {
		if v := f.run.job.Header[name]; v != nil {
			req.Header[name] = v
		}
	}
	req.Header["User-Agent"], req.Header["Accept"], req.Header["Accept-Encoding"] = f.run.engine.agent, acceptJSON, identity
	if body != nil {
		req.Header["Content-Type"] = contentJSON
	}
	f.run.job.Family.Authorize(req.Header, c, f.key)
	res, err := rt.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(io.LimitReader(res.Body, resetBytes))
	return res.StatusCode, got, err
}

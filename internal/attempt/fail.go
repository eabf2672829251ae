package attempt

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"spillway/internal/attempt/next"
	"spillway/internal/gateway"
)

// fail builds the most useful error: what the last upstream said when there was one, else why nothing could be tried and
// when that changes.
func (r *run) fail(why gateway.Reason) *gateway.Error {
	now := time.Now()
	d, earliest := r.diagnose(now)
	e := r.upstreamError(why)
	if e == nil {
		e = r.nothingTried(why, d)
	}
	if e.RetryAfter == 0 && !earliest.IsZero() {
		wait := max(earliest.Sub(now), time.Second)
		e.RetryAfter = wait + time.Duration(r.jitter()*float64(wait)/10)
	}
	if e.RetryAfter == 0 {
		e.RetryAfter = r.hinted(now)
	}
	if e.RetryAfter == 0 && e.HTTPStatus() == http.StatusTooManyRequests {
		e.RetryAfter = time.Second // a 429 always says when
	}
	e.Diagnostics = d
	if e.Next == "" {
		e.Next = d.Next
	}
	return r.closeWith(e)
}

// hinted is the shortest time for which an upstream that this request has asked wants to be left alone, for the case that
// no room holds anything against it; 0 = none said so.
func (r *run) hinted(now time.Time) (wait time.Duration) {
	const most = 15 * time.Minute // a hint is no latch: by then somebody will have asked again
	for i := range r.history {
		if d := min(r.history[i].BackAt.Sub(now), most); d > 0 && (wait == 0 || d < wait) {
			wait = d
		}
	}
	return wait
}

func (r *run) closeWith(e *gateway.Error) *gateway.Error {
	j := r.job.Journey
	j.Status, j.Code, j.Error = e.HTTPStatus(), string(e.Code), e.Message
	j.Overhead = r.overhead(time.Now()).Microseconds()
	return e
}

func (r *run) clientGone() *gateway.Error {
	j := r.job.Journey
	j.Status, j.Code, j.Error = 499, gateway.ClientGone.String(), "the client left before an answer began"
	return nil
}

// diagnose lists what was tried and what is out until when; earliest is the first instant at which something changes.
func (r *run) diagnose(now time.Time) (*gateway.Diagnostics, time.Time) {
	d := &gateway.Diagnostics{PoolSize: len(r.job.Pool.Candidates), Attempted: len(r.history), Counts: map[string]int{}}
	var earliest time.Time
	r.plan.Make(&r.ask, r.job.Allowed, now)
	for _, e := range r.job.Pool.Excluded {
		d.Excluded = append(d.Excluded, e)
		d.Counts[e.Layer.String()]++
	}
	for _, c := range r.plan.Ranked {
		if c.Ruling.OK() {
			continue
		}
		d.Excluded = append(d.Excluded, r.exclusion(c.ID, c.Ruling))
		d.Counts[c.Ruling.Layer.String()]++
		if u := c.Ruling.Until; u.After(now) && (earliest.IsZero() || u.Before(earliest)) {
			earliest = u
		}
	}
	for i := range r.history {
		c := r.tried(i)
		d.AttemptOrder = append(d.AttemptOrder, fmt.Sprintf("%s (%s): %s", c.Target(), c.Connection.ID, r.history[i].Outcome.Reason))
	}
	d.Earliest = earliest
	d.Next = advice(d, earliest, now)
	return d, earliest
}

func advice(d *gateway.Diagnostics, earliest, now time.Time) string {
	switch {
	case d.PoolSize == 0:
		return "Add a connection that serves this model over this API, or ask for another model; GET /v1/models lists what works."
	case !earliest.IsZero():
		return fmt.Sprintf("Try again in %s, or add another connection for this model.", max(earliest.Sub(now), time.Second).Round(time.Second))
	case d.Counts[gateway.LayerCooldown.String()] == d.PoolSize:
		return "Every key of this model was refused by its provider; check the keys and their accounts."
	}
	return "Try again; `spillway explain` with the request id shows what was tried."
}

// upstreamError is the error of the last attempt, in the upstream's own words.
func (r *run) upstreamError(why gateway.Reason) *gateway.Error {
	f := r.lastError
	if f == nil {
		return nil
	}
	o := f.outcome
	switch callersFault := o.Kind == gateway.Alive || o.Kind == gateway.ContentRefused || o.Kind == gateway.InvalidResult; {
	case callersFault, why == gateway.StopHere, why == gateway.StatusExcluded:
		return r.ownWords(f)
	}
	e := &gateway.Error{Code: gateway.UpstreamError, Status: keptStatus(o.Status), Type: o.Type, Upstream: true, Message: r.story(o, why),
		RetryAfter: o.TellAfter}
	switch o.Kind {
	case gateway.EmptyOutput:
		e.Code, e.Status = gateway.EmptyResponse, 0
	case gateway.Timeout, gateway.Slow, gateway.Stall:
		e.Code, e.Status = timedOut(f), 0
	case gateway.ServiceError:
		if o.Reason == gateway.ErrorInStream || o.Reason == gateway.Truncated {
			e.Code = gateway.UpstreamStreamError
		}
	}
	if why == gateway.DeadlinePassed && e.Status == 0 { // an upstream's own status says more than that time ran out
		e.Code = gateway.DeadlineExceeded
	}
	return e
}

// keptStatus keeps an upstream's error status; there is none to keep for a broken connection.
func keptStatus(status int) int {
	if status >= 400 && status <= 599 {
		return status
	}
	return 0
}

// ownWords returns the provider's error unchanged: the caller's fault is explained best by who refused it.
func (r *run) ownWords(f *flight) *gateway.Error {
	o := f.outcome
	e := &gateway.Error{Code: gateway.UpstreamError, Status: keptStatus(o.Status), Type: o.Type, Upstream: true, Message: o.Message}
	if o.Code != "" {
		e.Code = gateway.Code(o.Code)
	}
	if e.Message == "" {
		e.Message = fmt.Sprintf("the provider refused the request with status %d", o.Status)
	}
	if f.whole != nil && f.response != nil && f.response.StatusCode >= 400 {
		e.Verbatim, e.VerbatimType = append([]byte(nil), *f.whole...), f.response.Header.Get("Content-Type")
	}
	return e
}

// story says in one sentence what happened, ending with the upstream's last words.
func (r *run) story(o gateway.Outcome, why gateway.Reason) string {
	var b strings.Builder
	n := len(r.history)
	if n == 1 {
		b.WriteString("the one attempt that could be made failed")
	} else {
		fmt.Fprintf(&b, "all %d attempts failed", n)
	}
	fmt.Fprintf(&b, " (%s); the last one: %s", strings.ReplaceAll(why.String(), "_", " "), strings.ReplaceAll(o.Reason.String(), "_", " "))
	if o.Status >= 400 {
		fmt.Fprintf(&b, ", status %d", o.Status)
	}
	if o.Message != "" {
		b.WriteString(": " + o.Message)
	}
	return b.String()
}

// nothingTried names why no attempt could be made, by the layers that said no.
func (r *run) nothingTried(why gateway.Reason, d *gateway.Diagnostics) *gateway.Error {
	switch why {
	case gateway.DeadlinePassed:
		return &gateway.Error{Code: gateway.DeadlineExceeded, Message: "the request's deadline passed before an attempt could be made"}
	case gateway.RetryBudget:
		return &gateway.Error{Code: gateway.Overloaded, RetryAfter: time.Second, Message: "the retry budget of this pool is used up: too many requests are failing at once"}
	}
	if d.PoolSize == 0 {
		return r.emptyPool(d)
	}
	if env := r.job.Envelope; env.Operation != gateway.Generate && unserved(r.plan.Ranked) {
		return &gateway.Error{Code: gateway.NoExecutableTargets, Param: "model", Message: fmt.Sprintf(
			"every provider of %s has refused this call (%s) as one that it does not have", gateway.Quote(env.Model), env.Operation)}
	}
	return nothingRuns(r.plan.Ranked, d)
}

// unserved reports whether all candidates are out because they do not have what was asked for.
func unserved(candidates []*next.Candidate) bool {
	for _, c := range candidates {
		if c.Ruling.Reason != gateway.ModelLockout || c.Cause != gateway.ModelUnavailable {
			return false
		}
	}
	return true
}

// nothingRuns is the error for candidates that are all out.
func nothingRuns(candidates []*next.Candidate, d *gateway.Diagnostics) *gateway.Error {
	n := layers(candidates)
	e := &gateway.Error{Code: gateway.AllCoolingDown}
	switch {
	case d.Earliest.IsZero():
		e.Code, e.Message = gateway.AllSkipped, "every candidate is out and none says when it is back"
	case n.breaker == n.all:
		e.Code, e.Message = gateway.ProviderCircuitOpen, "every candidate is isolated by its circuit breaker"
	case n.refused == n.all:
		e.Message = "every key of this model was refused by its provider; check the keys and their accounts"
	case n.transient == n.all:
		e.Code, e.Message = gateway.ModelCooldown, "every account that serves this model is cooling down"
	default:
		e.Message = "every candidate is out, not all for the same cause"
	}
	return e
}

func (r *run) emptyPool(d *gateway.Diagnostics) *gateway.Error {
	model := r.job.Envelope.Model
	for _, x := range r.job.Pool.Excluded {
		if x.Reason == gateway.ProtocolMismatch || x.Reason == gateway.CapabilityMismatch {
			return &gateway.Error{Code: gateway.CapabilityMismatched, Param: "model", Message: fmt.Sprintf(
				"no target of %s can serve this request: %s", gateway.Quote(model), strings.ReplaceAll(x.Reason.String(), "_", " "))}
		}
	}
	return &gateway.Error{Code: gateway.NoExecutableTargets, Param: "model",
		Message: fmt.Sprintf("nothing is configured that could serve %s", gateway.Quote(model))}
}

// layerCount counts candidates that are out: all of them, those behind their breaker, those whose key or account was
// refused, and those out for a cause that is over by itself.
type layerCount struct{ all, breaker, refused, transient int }

func layers(candidates []*next.Candidate) (n layerCount) {
	for _, c := range candidates {
		if c.Ruling.OK() || c.Ruling.Reason == gateway.ObjectElsewhere {
			continue
		}
		n.all++
		switch c.Ruling.Layer {
		case gateway.LayerBreaker:
			n.breaker++
		case gateway.LayerCooldown, gateway.LayerLockout:
			switch {
			case c.Ruling.Reason == gateway.Terminal || refusedKey(c):
				n.refused++
			default:
				n.transient++
			}
		}
	}
	return n
}

// refusedKey reports whether a candidate rests because its key was refused. To a client that is no rate limit: a 429
// would make it try again for nothing.
func refusedKey(c *next.Candidate) bool {
	if c.Ruling.Reason != gateway.ConnectionCooldown {
		return false // the cause belongs to this ruling alone
	}
	switch c.Cause {
	case gateway.AuthError, gateway.Banned, gateway.CreditsExhausted, gateway.RequestRejected:
		return true
	}
	return false
}

// streamError is the error for a client whose stream broke after it began.
func (r *run) streamError(f *flight) *gateway.Error {
	o := f.outcome
	e := &gateway.Error{Code: gateway.UpstreamStreamError, Status: keptStatus(o.Status), Type: o.Type, Upstream: true,
		Message: "the answer broke off: " + strings.ReplaceAll(o.Reason.String(), "_", " "),
		Next:    "The text so far is incomplete. Send the request again."}
	if o.Kind == gateway.Timeout || o.Kind == gateway.Stall {
		e.Code = gateway.UpstreamTimeout
	}
	if o.Message != "" {
		e.Message += ": " + o.Message
	}
	e.RetryAfter = o.RetryAfter
	return e
}

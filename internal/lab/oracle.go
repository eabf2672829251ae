package lab

import (
	"slices"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// oracle plays the calls of a run once more as somebody would who knows at each instant what every source would do with
// the next request, luck included, and who obeys what binds a gateway too: attempts per call, the connections' caps and
// time-outs, the token buckets, the request's deadline and the client's patience. It asks the source that would answer
// soonest; when no source would, it spends an attempt, though never a call's last one, where the fewest bring the next
// good answer, for this call or for one behind it; when all are shut or full it waits, first come first served. An answered question that is asked again comes from the cache, where the scenario has
// one. It is a simulation by events over its own copies of scripts and buckets: pure, started when the run is over.
type oracle struct {
	s       *scenario.Scenario
	limits  scenario.Limits
	epoch   time.Time
	sources []*foreseen

	coming  []pending  // calls that have not begun, in order of arrival
	queue   events     // all else that will happen
	events  int        // so far
	waiting []*pending // in order of arrival
	tickAt  time.Duration

	answered []time.Duration // by question; never = not yet
	stuck    []bool          // by what the sources see of a call, see pending.sort

	success, attempts int
}

// foreseen is a source as the oracle knows it.
type foreseen struct {
	cfg     SourceConfig
	key     string
	rules   scenario.ConnectionLimits
	script  *fault.Script
	state   fault.State
	ahead   fault.State // of requests that are only thought of
	hits    []*fault.Fault
	buckets []*tank
	asked   int
	running int
	down    bool // no connection can be made
	memo    [2 * foresight]pace
}

// arrival is a call of the run and when it began, from the start of the run.
type arrival struct {
	call int
	at   time.Duration
}

// pending is a call that the oracle has not answered yet.
type pending struct {
	arrival
	q        question
	question int // its number: equal questions have the same
	kind     int // of what the sources see of a call
	left     int // attempts
}

// consult returns what an oracle makes of the calls.
func consult(s *scenario.Scenario, calls []arrival) *oracle {
	o := &oracle{s: s, limits: s.Limits(), epoch: time.Unix(0, 0), tickAt: -1}
	o.hire()
	o.expect(calls)
	for {
		e, ok := o.next()
		if !ok {
			return o
		}
		o.step(e)
	}
}

// hire makes the sources.
func (o *oracle) hire() {
	accounts, ips := map[string]*tank{}, map[string]*tank{}
	for name, c := range o.s.Accounts {
		accounts[name] = newTank(c)
	}
	for name, c := range o.s.IPs {
		ips[name] = newTank(c)
	}
	for _, cfg := range o.s.Sources {
		f := &foreseen{cfg: cfg, key: cfg.KeyOf(), rules: cfg.Limits(), script: cfg.Script()}
		for _, b := range []*tank{accounts[cfg.Account], ips[cfg.IP]} {
			if b != nil {
				f.buckets = append(f.buckets, b)
			}
		}
		for _, n := range f.script.Network() {
			f.down = f.down || n.Kind == fault.DNSFailure || n.Kind == fault.Refused
		}
		o.sources = append(o.sources, f)
	}
}

// never stands for the time of an answer that has not come.
const never = time.Duration(-1)

// expect makes the calls. What is compared again and again is numbered here, so that nothing is looked up by text later.
func (o *oracle) expect(calls []arrival) {
	type kind struct {
		protocol gateway.Protocol
		stream   bool
		model    string
	}
	questions, kinds := make(map[question]int, len(calls)), map[kind]int{}
	o.coming = make([]pending, len(calls))
	for i, c := range calls {
		q := ask(o.s, c.call)
		o.coming[i] = pending{arrival: c, q: q, question: number(questions, q), left: o.limits.Attempts,
			kind: number(kinds, kind{q.protocol, q.stream, q.model})}
	}
	o.answered = slices.Repeat([]time.Duration{never}, len(questions))
	o.stuck = make([]bool, len(kinds)*(o.limits.Attempts+1))
}

// number is the number of a thing: a new one gets the next.
func number[T comparable](known map[T]int, x T) int {
	n, ok := known[x]
	if !ok {
		n = len(known)
		known[x] = n
	}
	return n
}

// sort numbers what calls wait for: those of one kind with as many attempts left wait for the same.
func (o *oracle) sort(p *pending) int { return p.kind*(o.limits.Attempts+1) + p.left }

// soonest is when something happens next.
func (o *oracle) soonest() (at time.Duration, ok bool) {
	if len(o.coming) > 0 && (len(o.queue) == 0 || o.coming[0].at <= o.queue[0].at) {
		return o.coming[0].at, true
	}
	if len(o.queue) > 0 {
		return o.queue[0].at, true
	}
	return 0, false
}

// next is what happens next. Of all that happens at one instant, new calls come first.
func (o *oracle) next() (e event, ok bool) {
	at, ok := o.soonest()
	switch {
	case !ok:
		return e, false
	case len(o.coming) > 0 && o.coming[0].at == at:
		e = event{at: at, p: &o.coming[0]}
		o.coming = o.coming[1:]
		return e, true
	}
	return o.queue.pop(), true
}

func (o *oracle) push(e event) {
	o.events++
	e.n = o.events
	o.queue.push(e)
}

func (o *oracle) step(e event) {
	switch {
	case e.p != nil:
		o.enqueue(e.p)
	case e.of != nil:
		e.of.running--
	}
	if o.tickAt <= e.at {
		o.tickAt = -1
	}
	if at, ok := o.soonest(); ok && at == e.at {
		return // all that happens at one instant first
	}
	o.serve(e.at)
}

// enqueue keeps the order of arrival; a call that comes back from a spent attempt stands where it stood.
func (o *oracle) enqueue(p *pending) {
	i := len(o.waiting)
	for i > 0 && o.waiting[i-1].at > p.at {
		i--
	}
	o.waiting = append(o.waiting, nil)
	copy(o.waiting[i+1:], o.waiting[i:])
	o.waiting[i] = p
}

// serve lets every waiting call go on that can.
func (o *oracle) serve(now time.Duration) {
	clear(o.stuck)
	rest := o.waiting[:0]
	next := time.Duration(-1)
	for _, p := range o.waiting {
		if o.over(p, now) {
			continue
		}
		sort := o.sort(p)
		if o.stuck[sort] {
			rest = append(rest, p)
			continue
		}
		wait, gone := o.try(p, now)
		if gone {
			continue
		}
		o.stuck[sort] = true
		rest = append(rest, p)
		if next < 0 || now+wait < next {
			next = now + wait
		}
	}
	clear(o.waiting[len(rest):])
	o.waiting = rest
	if next >= 0 && (o.tickAt < 0 || next < o.tickAt) {
		o.tickAt = next
		o.push(event{at: next})
	}
}

// over reports whether a call needs nothing more: the cache has it, or its time is up.
func (o *oracle) over(p *pending, now time.Duration) bool {
	if at := o.answered[p.question]; at != never && at <= now && now-at < o.limits.CacheTTL {
		o.success++
		return true
	}
	return now-p.at >= o.limits.Patience
}

// lookAgain bounds the time until the oracle looks again when nothing tells it a better one: windows of faults open
// and close by then.
const lookAgain = 100 * time.Millisecond

// foresight is how many requests of a source the oracle looks ahead.
const foresight = 16

// try makes an attempt if there is one to make. Else it says when to look again.
func (o *oracle) try(p *pending, now time.Duration) (wait time.Duration, gone bool) {
	wait = lookAgain
	var best, spend *foreseen
	var good, lost prospect
	fewest := foresight
	for _, f := range o.sources {
		if f.down || f.rules.MaxConcurrent > 0 && f.running >= f.rules.MaxConcurrent || !f.serves(p.q.model) {
			continue
		}
		if d := f.dry(o.epoch, now); d > 0 {
			wait = min(wait, d)
			continue
		}
		first, bad := f.look(&p.q, now, fewest, func(x prospect) bool { return o.inTime(p, now, x) })
		switch {
		case bad == 0 && (best == nil || better(f, first, best, good)):
			best, good = f, first
		case bad > 0 && bad < fewest && p.left > 1 && first.took < o.limits.Patience:
			spend, lost, fewest = f, first, bad
		}
	}
	switch {
	case best != nil:
		o.attempt(best, p, now, good.took)
		o.success++
		if at := &o.answered[p.question]; *at == never || now+good.took < *at || *at+o.limits.CacheTTL < now {
			*at = now + good.took
		}
		return 0, true
	case spend != nil:
		o.attempt(spend, p, now, lost.took)
		p.left--
		o.push(event{at: now + max(lost.took, time.Millisecond), p: p})
		return 0, true
	}
	return max(wait, time.Millisecond), false
}

// better prefers sources that cost nothing shared, then the sooner end.
func better(f *foreseen, x prospect, than *foreseen, y prospect) bool {
	if a, b := len(f.buckets), len(than.buckets); a != b {
		return a < b
	}
	return x.took < y.took
}

// inTime reports whether an answer would come within the deadlines.
func (o *oracle) inTime(p *pending, now time.Duration, x prospect) bool {
	spent := now - p.at
	bound := x.first
	if !p.q.stream {
		bound = x.took
	}
	return x.ok && spent+bound <= o.limits.Request && spent+x.took <= o.limits.Patience
}

// attempt takes what an attempt takes, until it ends.
func (o *oracle) attempt(f *foreseen, p *pending, now, took time.Duration) {
	o.attempts++
	for _, b := range f.buckets {
		b.take(o.epoch, now)
	}
	f.hits = f.script.StepInto(f.hits, &f.state, f.ask(&p.q), now)
	f.asked++
	f.running++
	o.push(event{at: now + took, of: f})
}

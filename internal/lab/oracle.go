package lab

import (
	"container/heap"
	"time"

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

	queue    events
	events   int        // so far
	waiting  []*pending // in order of arrival
	tickAt   time.Duration
	answered map[question]time.Duration

	success, attempts int
}

// foreseen is a source as the oracle knows it.
type foreseen struct {
	cfg     SourceConfig
	rules   scenario.ConnectionLimits
	script  *fault.Script
	state   fault.State
	buckets []*fault.Bucket
	asked   int
	running int
	down    bool // no connection can be made
	memo    [2 * foresight]struct {
		n    uint64
		span time.Duration
	}
}

// arrival is a call of the run and when it began, from the start of the run.
type arrival struct {
	call int
	at   time.Duration
}

// pending is a call that the oracle has not answered yet.
type pending struct {
	arrival
	q    question
	left int // attempts
}

// event is something that happens at a time: a call comes (or comes back), an attempt ends (of), or neither: a look.
type event struct {
	at time.Duration
	n  int // order of events of one instant
	p  *pending
	of *foreseen
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].n < e[j].n
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// consult returns what an oracle makes of the calls.
func consult(s *scenario.Scenario, calls []arrival) *oracle {
	o := &oracle{s: s, limits: s.Limits(), epoch: time.Unix(0, 0), answered: map[question]time.Duration{}, tickAt: -1}
	accounts, ips := map[string]*fault.Bucket{}, map[string]*fault.Bucket{}
	for name, c := range s.Accounts {
		accounts[name] = fault.NewBucket(c)
	}
	for name, c := range s.IPs {
		ips[name] = fault.NewBucket(c)
	}
	for _, cfg := range s.Sources {
		f := &foreseen{cfg: cfg, rules: cfg.Limits(), script: cfg.Script()}
		for _, b := range []*fault.Bucket{accounts[cfg.Account], ips[cfg.IP]} {
			if b != nil {
				f.buckets = append(f.buckets, b)
			}
		}
		for _, n := range f.script.Network() {
			f.down = f.down || n.Kind == fault.DNSFailure || n.Kind == fault.Refused
		}
		o.sources = append(o.sources, f)
	}
	for _, c := range calls {
		o.push(event{at: c.at, p: &pending{arrival: c, q: ask(s, c.call), left: o.limits.Attempts}})
	}
	for o.queue.Len() > 0 {
		o.step(heap.Pop(&o.queue).(event))
	}
	return o
}

func (o *oracle) push(e event) {
	o.events++
	e.n = o.events
	heap.Push(&o.queue, e)
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
	if o.queue.Len() > 0 && o.queue[0].at == e.at {
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

// kind is what the sources see of a call: calls of one kind wait for the same.
type kind struct {
	protocol int
	stream   bool
	model    string
	left     int
}

// serve lets every waiting call go on that can.
func (o *oracle) serve(now time.Duration) {
	stuck := map[kind]bool{}
	rest := o.waiting[:0]
	next := time.Duration(-1)
	for _, p := range o.waiting {
		if o.over(p, now) {
			continue
		}
		k := kind{int(p.q.protocol), p.q.stream, p.q.model, p.left}
		if stuck[k] {
			rest = append(rest, p)
			continue
		}
		wait, gone := o.try(p, now)
		if gone {
			continue
		}
		stuck[k] = true
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
	if at, ok := o.answered[p.q]; ok && o.limits.CacheTTL > 0 && at <= now && now-at < o.limits.CacheTTL {
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
		if d := f.dry(o.epoch.Add(now)); d > 0 {
			wait = min(wait, d)
			continue
		}
		first, bad := f.ahead(p.q, now, fewest, func(x prospect) bool { return o.inTime(p, now, x) })
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
		if at, ok := o.answered[p.q]; !ok || now+good.took < at || at+o.limits.CacheTTL < now {
			o.answered[p.q] = now + good.took
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
		b.Take(o.epoch.Add(now))
	}
	f.script.Step(&f.state, f.ask(p.q), now)
	f.asked++
	f.running++
	o.push(event{at: now + took, of: f})
}

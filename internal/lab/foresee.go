package lab

import (
	"time"

	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// prospect is what a source would do with a request: whether a whole answer comes of it, when its first content would
// come, and when it would be over.
type prospect struct {
	ok          bool
	sure        bool // no request that comes now ends otherwise
	first, took time.Duration
}

// endless stands for the end of an attempt that nobody ends.
const endless = 24 * time.Hour

// serves reports whether the source is in the pool of what is asked for.
func (f *foreseen) serves(asked string) bool { return f.cfg.Serves(asked) != "" }

func (f *foreseen) ask(q *question) fault.Ask {
	return fault.Ask{Model: f.cfg.Serves(q.model), Protocol: q.protocol, Stream: q.stream, Key: f.key, InFlight: f.running}
}

// tank is a bucket as the oracle knows it: several sources drink from it, and it is asked for each of them.
type tank struct {
	*fault.Bucket
	known bool // nothing was taken since at
	at    time.Duration
	wait  time.Duration
}

func newTank(c fault.BucketConfig) *tank { return &tank{Bucket: fault.NewBucket(c)} }

// dry is the time until there is a token; 0 = there is.
func (t *tank) dry(epoch time.Time, now time.Duration) time.Duration {
	if t.known && t.at == now {
		return t.wait
	}
	t.known, t.at, t.wait = true, now, 0
	if d, ok := t.Peek(epoch.Add(now)); !ok {
		t.wait = max(d, time.Millisecond)
	}
	return t.wait
}

func (t *tank) take(epoch time.Time, now time.Duration) {
	t.Take(epoch.Add(now))
	t.known = false
}

// dry is the time until all buckets of the source have a token; 0 = they have.
func (f *foreseen) dry(epoch time.Time, now time.Duration) time.Duration {
	var wait time.Duration
	for _, b := range f.buckets {
		wait = max(wait, b.dry(epoch, now))
	}
	return wait
}

// look looks at the next requests of a source: what becomes of the first, and how many bad ones come before a good
// one. It looks at fewer than most.
func (f *foreseen) look(q *question, now time.Duration, most int, good func(prospect) bool) (first prospect, bad int) {
	f.ahead.Set(&f.state)
	for n := range most {
		x := f.next(q, now, uint64(f.asked+n+1))
		if n == 0 {
			first = x
		}
		if good(x) {
			return first, n
		}
		if x.sure {
			break
		}
	}
	return first, most
}

// next is what becomes of the n-th request, counted in f.ahead.
func (f *foreseen) next(q *question, now time.Duration, n uint64) prospect {
	var end, slow, crawl, short *fault.Fault
	f.hits = f.script.StepInto(f.hits, &f.ahead, f.ask(q), now)
	for i, x := range f.hits {
		switch {
		case i == 0 && x.Ends():
			end = x
		case x.Kind == fault.SlowFirstToken:
			slow = x
		case x.Kind == fault.Trickle:
			crawl = x
		case x.Kind == fault.Short:
			short = x
		}
	}
	p := f.pace(q, n, now, slow, crawl, short)
	if end != nil && end.Fatal() {
		p = wasted(end, p)
		p.sure = end.Sure()
	} else if p.ok && !q.stream {
		p.first = p.took
	}
	return f.cut(p)
}

// pace is how long a whole answer takes.
func (f *foreseen) pace(q *question, n uint64, now time.Duration, slow, crawl, short *fault.Fault) prospect {
	p, model := prospect{ok: true}, f.cfg.Serves(q.model)
	switch {
	case slow != nil:
		p.first = lateBy(slow)
	case short == nil:
		p.first = f.usual(model, n, now).first
	}
	p.took = p.first
	switch {
	case short != nil:
	case crawl == nil:
		p.took += f.usual(model, n, now).span
	default:
		for i := 1; i < f.cfg.Words(); i++ {
			if i >= crawl.Tokens {
				p.took += crawlGap(crawl)
			} else {
				p.took += tokenGap(&f.cfg, model, n, i, now)
			}
		}
	}
	return p
}

// pace is when the first token of the n-th answer comes, and how long it takes from there. It hangs on the pace that is
// set, and not otherwise on time or model.
type pace struct {
	n           uint64 // 0 = of none
	by          *scenario.Pace
	first, span time.Duration
}

// usual is the pace of an answer without faults. It remembers what was computed last: the oracle looks at the same few
// requests again and again.
func (f *foreseen) usual(model string, n uint64, now time.Duration) *pace {
	m, by := &f.memo[n%uint64(len(f.memo))], f.cfg.PaceAt(now, model)
	if m.n != n || m.by != by {
		*m = pace{n, by, firstToken(&f.cfg, model, n, now), span(&f.cfg, model, n, now)}
	}
	return m
}

// wasted is how long an attempt takes that ends badly. What comes of its beginning is not looked at closely: an oracle
// makes such an attempt only when it must, and then the shortest.
func wasted(end *fault.Fault, whole prospect) prospect {
	switch end.Kind {
	case fault.Silence, fault.Stall, fault.Heartbeats:
		if end.Delay == 0 {
			return prospect{took: endless}
		}
		return prospect{took: whole.first + end.Delay}
	case fault.Empty, fault.MetadataOnly, fault.ErrorFirst:
		return prospect{took: whole.first}
	case fault.Cut, fault.ResetMidStream, fault.EndEarly, fault.ErrorMid:
		if end.Tokens == 0 {
			return prospect{took: whole.first}
		}
		return prospect{took: whole.took}
	}
	return prospect{}
}

// cut applies the connection's own time-outs.
func (f *foreseen) cut(p prospect) prospect {
	if d := f.rules.FirstContent; d > 0 && p.first > d {
		p = prospect{took: min(p.took, d)}
	}
	if d := f.rules.Total; d > 0 && p.took > d {
		p = prospect{took: d}
	}
	return p
}

// sight is what was seen of a source when a call began: whether its script let requests pass.
type sight struct {
	at time.Time
	ok bool
}

// outage is the longest time in which a source was healthy at the beginning of every call and was asked for nothing.
func outage(sights []sight, attempts []Attempt) time.Duration {
	var longest time.Duration
	var since time.Time // zero: not healthy
	next := 0
	for _, s := range sights {
		for next < len(attempts) && !attempts[next].At.After(s.at) {
			if !since.IsZero() {
				longest = max(longest, attempts[next].At.Sub(since))
				since = attempts[next].At
			}
			next++
		}
		switch {
		case !s.ok:
			since = time.Time{}
		case since.IsZero():
			since = s.at
		default:
			longest = max(longest, s.at.Sub(since))
		}
	}
	return longest
}

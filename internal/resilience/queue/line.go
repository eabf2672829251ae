package queue

import (
	"container/heap"
	"slices"
	"time"

	"spillway/internal/gateway"
)

// Line is the pure machine of one pool's queue: who waits, in which order, whose turn it is to look. It has no lock, no
// timer and no channel, so the simulator can run it too.
//
// Order. Every place gets a tag: one more than the tag of the place before it of the same client key, and at least one
// more than the tag of the last place served (start-time fair queueing, Goyal 1996, with equal weights). Lower tags go
// first, equal tags by arrival. So one key is FIFO, and a key with a thousand places does not push back a key with one.
//
// Turns. At most one place looks at a time. When something changes (Wake, or a time that was waited for), a new round
// begins: the first in order looks. If it is served, the next looks; if it passes, its candidates are known to be
// refused in this round, and whoever waits for nothing else is not asked. A change while somebody looks begins a new
// round too, so no change is lost; the same place may look again.
type Line struct {
	cfg LineConfig

	round   uint64
	refused map[int]struct{} // candidates that a look in this round found not runnable
	looker  *Place
	lookBy  time.Time // when the looker has had its turn for too long
	lookAt  time.Time // when a new round begins by time alone
	again   time.Time // when one begins because nothing happened for long

	lanes   map[gateway.ClientKeyID]*lane
	groups  map[string]*group
	order   []*group // the same groups, for walking
	waiting map[int]int
	virtual uint64 // tag of the last place served
	arrived uint64
	length  int
	speed   speed
}

// LineConfig tunes a line.
type LineConfig struct {
	// Relook begins a round at least this often, so that a change nobody told of delays, and never wedges.
	Relook time.Duration
	// LookLimit is how long one look may take before the turn goes on.
	LookLimit time.Duration
}

// NewLine returns an empty line.
func NewLine(cfg LineConfig) *Line {
	if cfg.Relook <= 0 {
		cfg.Relook = time.Second
	}
	if cfg.LookLimit <= 0 {
		cfg.LookLimit = time.Second
	}
	return &Line{cfg: cfg, round: 1, refused: map[int]struct{}{}, lanes: map[gateway.ClientKeyID]*lane{},
		groups: map[string]*group{}, waiting: map[int]int{}}
}

// Len is the number of places in line.
func (l *Line) Len() int { return l.length }

// Ahead reports whether somebody in line waits for one of these candidates.
func (l *Line) Ahead(set []int) bool {
	for _, id := range set {
		if l.waiting[id] > 0 {
			return true
		}
	}
	return false
}

// manyLanes bounds the work of Before: with more client keys than that the whole length is the answer.
const manyLanes = 256

// Before is how many places would be served before a new one of this key, if nothing else changed.
func (l *Line) Before(key gateway.ClientKeyID) int {
	if len(l.lanes) > manyLanes {
		return l.length
	}
	mine := 1
	if own := l.lanes[key]; own != nil {
		mine += len(own.tags)
	}
	n := 0
	for k, lane := range l.lanes {
		if k == key {
			n += len(lane.tags)
			continue
		}
		n += min(len(lane.tags), mine)
	}
	return n
}

// Join appends a place. The set is copied. The place is given a turn like every other: at once, unless a look in this
// round has already found all of its candidates refused.
func (l *Line) Join(key gateway.ClientKeyID, set []int, now time.Time) *Place {
	l.speed.advance(l.length > 0, now)
	if l.length == 0 {
		l.nextRound(now)
		l.lookAt = time.Time{}
	}
	g := l.groupOf(set)
	own := l.lanes[key]
	if own == nil {
		own = new(lane)
		l.lanes[key] = own
	}
	tag := l.virtual
	if n := len(own.tags); n > 0 {
		tag = max(tag, own.tags[n-1])
	}
	l.arrived++
	p := &Place{key: key, group: g, tag: tag + 1, seq: l.arrived, at: -1}
	own.tags = append(own.tags, p.tag)
	g.members++
	l.length++
	for _, id := range g.set {
		l.waiting[id]++
	}
	heap.Push(&g.places, p)
	return p
}

// Await tells when the candidates of a waiting place may change by time alone; zero = unknown.
func (l *Line) Await(p *Place, until, now time.Time) {
	if p.left || until.IsZero() {
		return
	}
	// A time that has passed already and yet was not enough must not become a spin.
	if soonest := now.Add(minPause); until.Before(soonest) {
		until = soonest
	}
	if l.lookAt.IsZero() || until.Before(l.lookAt) {
		l.lookAt = until
	}
}

// minPause is the least time between two rounds that begin by time alone.
const minPause = 10 * time.Millisecond

// Pass tells that a place looked and could not run.
func (l *Line) Pass(p *Place) {
	if p.left || p.at >= 0 {
		return
	}
	if p.lookIn == l.round {
		for _, id := range p.group.set {
			l.refused[id] = struct{}{}
		}
		p.group.passedIn = l.round
	}
	if l.looker == p {
		l.looker = nil
	}
	heap.Push(&p.group.places, p)
}

// Spent tells that a place that looks has found candidates refused beside what it has taken, and when that may change by
// time alone; zero = unknown. So nobody who waits for nothing else is asked in this round. The place leaves next.
func (l *Line) Spent(p *Place, refused []int, until, now time.Time) {
	if p.left || p.at >= 0 || p.lookIn != l.round {
		return
	}
	for _, id := range refused {
		l.refused[id] = struct{}{}
	}
	l.Await(p, until, now)
}

// Leave takes a place out of the line; served tells that it got what it waited for. It is idempotent.
func (l *Line) Leave(p *Place, served bool, now time.Time) {
	if p.left {
		return
	}
	l.speed.advance(l.length > 0, now)
	p.left = true
	if p.at >= 0 {
		heap.Remove(&p.group.places, p.at)
	}
	if l.looker == p {
		l.looker = nil
	}
	if served {
		l.virtual = max(l.virtual, p.tag)
		l.speed.served++
	}
	own := l.lanes[p.key]
	own.drop(p.tag)
	if len(own.tags) == 0 {
		delete(l.lanes, p.key)
	}
	for _, id := range p.group.set {
		if l.waiting[id]--; l.waiting[id] == 0 {
			delete(l.waiting, id)
		}
	}
	l.length--
	if p.group.members--; p.group.members == 0 {
		delete(l.groups, p.group.name)
		l.order = slices.DeleteFunc(l.order, func(g *group) bool { return g == p.group })
	}
}

// Wake begins a new round: something may have become free.
func (l *Line) Wake(now time.Time) {
	if l.length > 0 {
		l.nextRound(now)
	}
}

func (l *Line) nextRound(now time.Time) {
	l.round++
	clear(l.refused)
	l.again = now.Add(l.cfg.Relook)
}

// Tick lets time pass: a time that was waited for, a look that takes too long, a long silence.
func (l *Line) Tick(now time.Time) {
	if l.length == 0 {
		return
	}
	if l.looker != nil && !now.Before(l.lookBy) {
		l.looker = nil // it may still come back; the turn goes on meanwhile
	}
	due := !l.lookAt.IsZero() && !now.Before(l.lookAt)
	if due {
		l.lookAt = time.Time{}
	}
	if due || !now.Before(l.again) {
		l.nextRound(now)
	}
}

// Next gives the turn to the first place that may find something, if nobody looks. nil = nobody, or somebody looks.
func (l *Line) Next(now time.Time) *Place {
	if l.looker != nil {
		return nil
	}
	var first *Place
	for _, g := range l.order {
		if len(g.places) > 0 && (first == nil || g.places[0].before(first)) && !l.hopeless(g) {
			first = g.places[0]
		}
	}
	if first == nil {
		return nil
	}
	heap.Pop(&first.group.places)
	first.lookIn = l.round
	l.looker, l.lookBy = first, now.Add(l.cfg.LookLimit)
	return first
}

// WakeAt is when Tick must be called next; zero = nobody waits.
func (l *Line) WakeAt() time.Time {
	if l.length == 0 {
		return time.Time{}
	}
	at := l.again
	if !l.lookAt.IsZero() && l.lookAt.Before(at) {
		at = l.lookAt
	}
	if l.looker != nil && l.lookBy.Before(at) {
		at = l.lookBy
	}
	return at
}

// Estimate is how long a new place of this key would wait, from the learned service rate; known is false while too few
// were served to tell.
func (l *Line) Estimate(key gateway.ClientKeyID, now time.Time) (wait time.Duration, known bool) {
	l.speed.advance(l.length > 0, now)
	return l.speed.wait(l.Before(key) + 1)
}

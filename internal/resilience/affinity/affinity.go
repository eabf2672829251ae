// Package affinity answers three questions: which connection has served this session last, at which connection does
// this stored object live, and which account can read this encrypted text?
//
// Keys. A session and an object are known by a hash over the client key and their name, so no client meets what another
// one has, and nothing that a client sent is kept. Bonds and pins name a connection by its identity: one that was
// re-pointed is another connection.
//
// A bond is a wish: the plan puts the bound connection first among those that are well. Only a success binds, moves or
// renews it, a failure of the connection ends it, and it ends by itself when nobody comes. A pin is a fact: the object
// is nowhere else. Both survive a restart; a renewal is stored now and then only, and a first turn not at all. Who made an
// encrypted text is known until the room is full or the process ends; a bond that has moved is remembered as one.
//
// What it never does: forbid anything, look at health, or keep more than it was told to.
package affinity

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"sync"
	"time"
	"unique"

	"spillway/internal/resilience"
	memory "spillway/internal/state"
)

// The rooms of its durable records.
const (
	BondRoom = "affinity"
	PinRoom  = "pin"
)

// Key names a session or an object.
type Key [16]byte

// KeyOf hashes names to a key. Borders between names count.
func KeyOf(names ...string) (k Key) {
	var room [256]byte
	b := room[:0]
	for _, n := range names {
		b = binary.AppendUvarint(b, uint64(len(n)))
		b = append(b, n...)
	}
	sum := sha256.Sum256(b)
	copy(k[:], sum[:])
	return k
}

// Short is the beginning of the key, for people.
func (k Key) Short() string { return hex.EncodeToString(k[:4]) }

// Options are what a room needs from its surroundings; the zero value works.
type Options struct {
	// Keep stores what must survive a restart. It is called without any lock held.
	Keep resilience.Keep
	// Sessions, Objects and Seals bound the memory; 0 = 50 000, 200 000 and 200 000.
	Sessions, Objects, Seals int
}

// Room holds the bonds of sessions and the pins of objects. It is safe for concurrent use.
type Room struct {
	keep resilience.Keep

	mu    sync.Mutex
	cfg   Config
	bonds *table[Bond]
	fresh *table[Bond] // of first turns: most of them, in a batch, are the only ones
	pins  *table[Pin]
	seals *table[Maker]
	last  time.Time // of the last record: a store lets the later one of a key win
}

// New returns an empty room with the default configuration.
func New(o Options) *Room {
	if o.Sessions <= 0 {
		o.Sessions = 50_000
	}
	if o.Objects <= 0 {
		o.Objects = 200_000
	}
	if o.Seals <= 0 {
		o.Seals = 200_000
	}
	return &Room{keep: o.Keep, cfg: Default(), bonds: newTable[Bond](o.Sessions),
		fresh: newTable[Bond](max(o.Sessions/4, 1)), pins: newTable[Pin](o.Objects), seals: newTable[Maker](o.Seals)}
}

// Configure puts a configuration in force, for the sessions of before as well.
func (r *Room) Configure(c Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cfg = c
}

// On reports whether sessions are bound at all.
func (r *Room) On() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cfg.TTL > 0
}

// Peek returns what a session is bound to, and whether it may go back to a higher target; ok is false when it is not
// bound. It changes nothing.
func (r *Room) Peek(k Key, now time.Time) (b Bond, mayReturn, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, e := r.find(k)
	if e == nil || !e.value.Live(r.cfg, now) {
		return Bond{}, false, false
	}
	return e.value, e.value.MayReturn(r.cfg, now), true
}

// find returns a session's bond and the table that has it; mu is held.
func (r *Room) find(k Key) (*table[Bond], *entry[Bond]) {
	for _, t := range []*table[Bond]{r.bonds, r.fresh} {
		if e := t.find(k); e != nil {
			return t, e
		}
	}
	return nil, nil
}

// Record takes the end of an attempt that a request of the session made. A first turn that only its prompt names is not
// stored, and cannot push out a session that has had more: a batch has a great many of them, and they end there.
func (r *Room) Record(k Key, ev Event, now time.Time) {
	var out []resilience.Record
	r.mu.Lock()
	cfg, before, kept := r.cfg, Bond{}, time.Time{}
	in, e := r.find(k)
	if e != nil {
		before, kept = e.value, e.keptAt
	}
	forget := func(e *entry[Bond]) {
		if !e.keptAt.IsZero() {
			out = append(out, r.record(BondRoom, e.key, nil, now))
		}
	}
	switch after := before.step(cfg, ev, now); {
	case after == before || cfg.TTL <= 0:
	case after.Connection == "":
		in.drop(k)
		forget(e)
	default:
		after.Connection, after.Model = unique.Make(after.Connection).Value(), unique.Make(after.Model).Value()
		after.Account = unique.Make(after.Account).Value()
		into := r.bonds
		if ev.First && in != r.bonds {
			into = r.fresh
		}
		if in != nil && in != into {
			in.drop(k)
		}
		e = into.put(k)
		e.value = after
		if into == r.bonds && durable(cfg, before, after, kept, now) {
			e.keptAt = now
			out = append(out, r.record(BondRoom, k, after, now))
		}
		into.trim(func(b *Bond) bool { return !b.Live(cfg, now) }, forget)
	}
	r.mu.Unlock()
	r.save(out)
}

// PeekPin returns the identity of the connection at which an object lives.
func (r *Room) PeekPin(k Key, now time.Time) (connection string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.pins.find(k)
	if e == nil || !e.value.Live(r.cfg, now) {
		return "", false
	}
	return e.value.Connection, true
}

// RecordPin notes that a connection has made an object.
func (r *Room) RecordPin(k Key, connection string, now time.Time) {
	var out []resilience.Record
	r.mu.Lock()
	if cfg := r.cfg; cfg.PinTTL > 0 {
		e := r.pins.put(k)
		e.value = Pin{Connection: unique.Make(connection).Value(), At: now}
		out = append(out, r.record(PinRoom, k, e.value, now))
		r.pins.trim(func(p *Pin) bool { return !p.Live(cfg, now) },
			func(e *entry[Pin]) { out = append(out, r.record(PinRoom, e.key, nil, now)) })
	}
	r.mu.Unlock()
	r.save(out)
}

// ForgetPin drops an object that is gone.
func (r *Room) ForgetPin(k Key, now time.Time) {
	r.mu.Lock()
	if r.pins.find(k) == nil {
		r.mu.Unlock()
		return
	}
	r.pins.drop(k)
	rec := r.record(PinRoom, k, nil, now)
	r.mu.Unlock()
	r.keep.Save(rec)
}

// record makes a durable record; nil deletes. mu is held.
func (r *Room) record(room string, k Key, value any, now time.Time) resilience.Record {
	if now = now.Round(0); !now.After(r.last) {
		now = r.last.Add(1)
	}
	r.last = now
	rec := resilience.Record{Room: room, Key: hex.EncodeToString(k[:]), At: now}
	if value != nil {
		rec.Value, _ = json.Marshal(value) // strings, numbers and times always encode
	}
	return rec
}

func (r *Room) save(records []resilience.Record) {
	for _, rec := range records {
		r.keep.Save(rec)
	}
}

// Restore takes over records of an earlier process, oldest first whatever their order. What is over is deleted from the
// store. Records of other rooms and unreadable ones are ignored.
func (r *Room) Restore(records []resilience.Record, now time.Time) {
	var out []resilience.Record
	r.mu.Lock()
	cfg := r.cfg
	for _, rec := range records {
		if rec.Room == BondRoom || rec.Room == PinRoom {
			r.last = later(r.last, rec.At)
		}
	}
	out = restore(r, r.bonds, BondRoom, records, now, func(b *Bond) bool {
		b.At = sooner(b.At, now)
		return b.Live(cfg, now)
	})
	out = append(out, restore(r, r.pins, PinRoom, records, now, func(p *Pin) bool {
		p.At = sooner(p.At, now)
		return p.Live(cfg, now)
	})...)
	r.mu.Unlock()
	r.save(out)
}

// restore fills a table; r.mu is held.
func restore[V any](r *Room, t *table[V], room string, records []resilience.Record, now time.Time, live func(*V) bool) (out []resilience.Record) {
	type found struct {
		key   Key
		at    time.Time
		value V
	}
	var all []found
	for rec, v := range memory.Decode[V](room, records) {
		raw, err := hex.DecodeString(rec.Key)
		if err != nil || len(raw) != len(Key{}) {
			continue
		}
		if f := (found{Key(raw), rec.At, v}); live(&f.value) {
			all = append(all, f)
		} else {
			out = append(out, r.record(room, f.key, nil, now))
		}
	}
	sortBy(all, func(f found) time.Time { return f.at })
	for _, f := range all {
		e := t.put(f.key)
		e.value, e.keptAt = f.value, sooner(f.at, now)
	}
	t.trim(func(v *V) bool { return !live(v) }, func(e *entry[V]) { out = append(out, r.record(room, e.key, nil, now)) })
	return out
}

// Sessions counts the sessions that are remembered.
func (r *Room) Sessions() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.bonds.entries) + len(r.fresh.entries)
}

// Objects counts the stored objects that are remembered.
func (r *Room) Objects() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.pins.entries)
}

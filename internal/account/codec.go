package account

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
	"spillway/internal/store"
)

// The first byte of a journal record says what it is.
const (
	kindIntent  = 1 // a journey at its begin
	kindSettled = 2 // a journey at its end
	kindRecord  = 3 // a durable record of a resilience room
	kindBody    = 4
)

// A journey is kept in a compact binary form, the same in the journal and in the store's detail column: about 200 bytes
// for a request with one attempt against 900 as JSON, and 0.3 us to write against 5 us. Numbers are varints, instants
// are nanoseconds after the journey's At, names that are enumerations are their numbers; a test pins those numbers, so
// enumerations may grow at their end only. The head is what the store has columns for, so the mover reads no further.
// Fields are only ever added at the end of head, attempt or tail, under a new version.
const codecVersion = 4

// The fields that a version added: 2 has the journey's session, 3 its operation, 4 whose answer it got.
const (
	withSession   = 2
	withOperation = 3
	withCopy      = 4
)

// Texts in the log are cut to these lengths, in bytes.
const (
	maxMessage = 256
	maxError   = 512
	maxName    = 200
	maxPath    = 8
)

type encoder struct {
	b  []byte
	at time.Time
}

func (e *encoder) str(s string, limit int) {
	s = cut(s, limit)
	e.b = binary.AppendUvarint(e.b, uint64(len(s)))
	e.b = append(e.b, s...)
}

// cut shortens s to at most limit bytes without splitting a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && s[limit]&0xC0 == 0x80 {
		limit--
	}
	return s[:limit]
}

func (e *encoder) int(v int64) { e.b = binary.AppendVarint(e.b, v) }

// time writes 0 for no time, else the distance from At, moved away from 0.
func (e *encoder) time(t time.Time) {
	if t.IsZero() {
		e.b = append(e.b, 0)
		return
	}
	d := t.UnixNano() - e.at.UnixNano()
	if d >= 0 {
		d++
	}
	e.int(d)
}

func (e *encoder) usage(u gateway.Usage) {
	var flags byte
	for i, v := range [...]int{u.Input, u.CachedInput, u.Output, u.Reasoning} {
		if v != 0 {
			flags |= 1 << i
		}
	}
	if u.Estimated {
		flags |= 1 << 4
	}
	e.b = append(e.b, flags)
	for _, v := range [...]int{u.Input, u.CachedInput, u.Output, u.Reasoning} {
		if v != 0 {
			e.int(int64(v))
		}
	}
}

func (e *encoder) target(t gateway.Target) {
	e.str(string(t.Provider), maxName)
	e.str(string(t.Model), maxName)
}

func flag(on bool, bit byte) byte {
	if on {
		return bit
	}
	return 0
}

// rowTarget is who served, else who was tried last.
func rowTarget(j *gateway.Journey) (gateway.Target, gateway.ConnectionID) {
	if j.Served.Provider != "" || len(j.Attempts) == 0 {
		return j.Served, j.Connection
	}
	last := &j.Attempts[len(j.Attempts)-1]
	return last.Target, last.Connection
}

// Bits of the head's and an attempt's flags.
const (
	bitStream  = 1
	bitServed  = 2 // the head's target is who served
	bitSlim    = 4 // attempts were left out for want of room
	bitOutcome = 8 // the head names the last attempt's outcome: it was not a success

	bitProbe     = 1
	bitUncounted = 2
	bitPinned    = 4
	bitMore      = 8  // rule, message, hint or breaker states follow
	bitOwnUsage  = 16 // usage differs from the journey's
)

// appendJourney writes version, head and tail. slim leaves the attempts out.
func appendJourney(b []byte, j *gateway.Journey, slim bool) []byte {
	e := encoder{b: append(b, codecVersion), at: j.At}
	target, conn := rowTarget(j)
	served := j.Served.Provider != ""
	failed := len(j.Attempts) > 0 && j.Attempts[len(j.Attempts)-1].Kind != gateway.Success
	e.b = append(e.b, flag(j.Stream, bitStream)|flag(served, bitServed)|flag(slim, bitSlim)|flag(failed, bitOutcome))
	e.str(string(j.ID), maxName)
	e.b = binary.LittleEndian.AppendUint64(e.b, uint64(j.At.UnixNano()))
	e.time(j.EndedAt)
	e.str(string(j.ClientKey), maxName)
	e.str(j.Model, maxName)
	e.target(target)
	e.str(string(conn), maxName)
	e.int(int64(j.Status))
	e.str(j.Code, maxName)
	e.int(int64(len(j.Attempts)))
	e.usage(j.Usage)
	if failed {
		e.b = append(e.b, byte(j.Attempts[len(j.Attempts)-1].Kind))
	}
	e.tail(j, slim)
	return e.b
}

func (e *encoder) tail(j *gateway.Journey, slim bool) {
	e.b = append(e.b, byte(j.Protocol))
	e.str(j.Combo, maxName)
	e.str(j.Strategy, maxName)
	path := j.Path[:min(len(j.Path), maxPath)]
	e.int(int64(len(path)))
	for _, p := range path {
		e.str(p, maxName)
	}
	e.int(int64(j.Tokens))
	e.int(int64(j.PoolSize))
	e.str(string(j.Served.Connection), maxName)
	e.int(int64(j.Served.Weight))
	e.exclusions(j)
	e.int(int64(len(j.Waits)))
	for _, w := range j.Waits {
		e.time(w.At)
		e.b = append(e.b, byte(w.Reason))
		e.int(int64(w.For))
	}
	e.time(j.Committed)
	e.str(j.Error, maxError)
	e.int(j.Overhead)
	e.str(j.Session, maxName)
	e.str(string(j.Bound), maxName)
	e.b = append(e.b, byte(j.Moved), byte(j.Operation))
	e.str(string(j.CopyOf), maxName)
	e.b = append(e.b, flag(j.Shared, 1))
	if slim {
		return
	}
	for i := range j.Attempts {
		e.attempt(&j.Attempts[i], j)
	}
}

func (e *encoder) exclusions(j *gateway.Journey) {
	list := j.Excluded[:min(len(j.Excluded), gateway.MaxExcluded)]
	e.int(int64(len(list)))
	for _, x := range list {
		e.target(x.Target)
		e.str(string(x.Target.Connection), maxName)
		e.int(int64(x.Target.Weight))
		e.str(string(x.Connection), maxName)
		e.b = append(e.b, byte(x.Layer), byte(x.Reason))
		e.time(x.Until)
	}
	e.int(int64(len(j.Reasons)))
	for name, n := range j.Reasons {
		e.str(name, maxName)
		e.int(int64(n))
	}
}

func (e *encoder) attempt(a *gateway.Attempt, j *gateway.Journey) {
	more := a.Rule != "" || a.Message != "" || a.RetryAfter != 0 || a.Before != "" || a.After != ""
	pinned := a.Target.Connection != "" || a.Target.Weight != 0
	e.b = append(e.b, flag(a.Probe, bitProbe)|flag(a.Uncounted, bitUncounted)|flag(pinned, bitPinned)|flag(more, bitMore)|
		flag(a.Usage != j.Usage, bitOwnUsage), byte(a.Why), byte(a.Kind), byte(a.Scope), byte(a.Reason))
	e.int(int64(a.N))
	e.target(a.Target)
	if pinned {
		e.str(string(a.Target.Connection), maxName)
		e.int(int64(a.Target.Weight))
	}
	e.str(string(a.Connection), maxName)
	e.time(a.BeganAt)
	e.time(a.HeadersAt)
	e.time(a.ContentAt)
	e.time(a.EndedAt)
	e.int(a.Bytes)
	e.int(int64(a.Status))
	if a.Usage != j.Usage {
		e.usage(a.Usage)
	}
	if more {
		e.str(a.Rule, maxName)
		e.str(a.Message, maxMessage)
		e.int(int64(math.Round(a.RetryAfter * 1e6)))
		e.str(a.Before, maxName)
		e.str(a.After, maxName)
	}
}

func appendRecord(b []byte, r resilience.Record) []byte {
	e := encoder{b: append(b, kindRecord)}
	e.str(r.Room, maxName)
	e.str(r.Key, journalText)
	e.b = binary.LittleEndian.AppendUint64(e.b, uint64(r.At.UnixNano()))
	e.b = append(e.b, r.Value...)
	return e.b
}

func appendBody(b []byte, id gateway.RequestID, part string, at time.Time, data []byte) []byte {
	e := encoder{b: append(b, kindBody)}
	e.str(string(id), maxName)
	e.str(part, maxName)
	e.b = binary.LittleEndian.AppendUint64(e.b, uint64(at.UnixNano()))
	e.b = append(e.b, data...)
	return e.b
}

// journalText bounds a room's key.
const journalText = 4096

var errDamaged = errors.New("account: damaged record")

func decodeRecord(b []byte) (resilience.Record, error) {
	d := decoder{b: b}
	r := resilience.Record{Room: d.str(), Key: d.str(), At: d.instant()}
	r.Value = d.b
	return r, d.err
}

func decodeBody(b []byte) (store.Body, error) {
	d := decoder{b: b}
	r := store.Body{Request: gateway.RequestID(d.str()), Part: d.str(), At: d.instant()}
	r.Data = d.b
	return r, d.err
}

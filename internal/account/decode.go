package account

import (
	"encoding/binary"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/store"
)

// decoder reads what encoder wrote. After the first fault it returns zero values; err tells.
type decoder struct {
	b     []byte
	at    time.Time
	names names
	err   error

	version byte
}

// names keeps one copy of texts that come again and again: keys, models, connections.
type names map[string]string

const maxNames = 4096

func (n names) of(b []byte) string {
	if n == nil {
		return string(b)
	}
	if s, ok := n[string(b)]; ok { // no allocation: the compiler knows this form
		return s
	}
	if len(n) >= maxNames {
		clear(n)
	}
	s := string(b)
	n[s] = s
	return s
}

func (d *decoder) fail() {
	d.err, d.b = errDamaged, nil
}

func (d *decoder) bytes() []byte {
	n, w := binary.Uvarint(d.b)
	if w <= 0 || n > uint64(len(d.b)-w) {
		d.fail()
		return nil
	}
	s := d.b[w : w+int(n)]
	d.b = d.b[w+int(n):]
	return s
}

func (d *decoder) str() string  { return string(d.bytes()) }
func (d *decoder) name() string { return d.names.of(d.bytes()) }

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) int() int64 {
	v, w := binary.Varint(d.b)
	if w <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[w:]
	return v
}

// count reads the length of a list whose elements take at least one byte each, so damage cannot ask for much memory.
func (d *decoder) count() int {
	n := d.int()
	if n < 0 || n > int64(len(d.b)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) instant() time.Time {
	if len(d.b) < 8 {
		d.fail()
		return time.Time{}
	}
	v := binary.LittleEndian.Uint64(d.b)
	d.b = d.b[8:]
	return time.Unix(0, int64(v)).UTC()
}

func (d *decoder) time() time.Time {
	v := d.int()
	switch {
	case v == 0:
		return time.Time{}
	case v > 0:
		v--
	}
	return d.at.Add(time.Duration(v))
}

func (d *decoder) usage() (u gateway.Usage) {
	flags := d.byte()
	for i, v := range [...]*int{&u.Input, &u.CachedInput, &u.Output, &u.Reasoning} {
		if flags&(1<<i) != 0 {
			*v = int(d.int())
		}
	}
	u.Estimated = flags&(1<<4) != 0
	return u
}

func (d *decoder) target() gateway.Target {
	return gateway.Target{Provider: gateway.ProviderID(d.name()), Model: gateway.ModelID(d.name())}
}

// head is the first part of a journey, which the store has columns for.
type head struct {
	flags    byte
	id       gateway.RequestID
	at       time.Time
	endedAt  time.Time
	key      string
	model    string
	provider []byte
	upstream []byte
	conn     string
	status   int
	code     string
	attempts int
	usage    gateway.Usage
	outcome  gateway.Kind
}

func (d *decoder) head() (h head) {
	if d.version = d.byte(); d.version < 1 || d.version > codecVersion {
		d.fail()
		return h
	}
	h.flags = d.byte()
	h.id = gateway.RequestID(d.str())
	h.at = d.instant()
	d.at = h.at
	h.endedAt = d.time()
	h.key, h.model = d.name(), d.name()
	h.provider, h.upstream = d.bytes(), d.bytes()
	h.conn = d.name()
	h.status = int(d.int())
	h.code = d.name()
	h.attempts = int(d.int())
	h.usage = d.usage()
	h.outcome = gateway.Success
	if h.flags&bitOutcome != 0 {
		h.outcome = gateway.Kind(d.byte())
	}
	return h
}

// row turns a journey's bytes into a row; Detail is b itself. scratch holds the target while it is looked up.
func (d *decoder) row(b []byte, scratch []byte) (store.Request, []byte, error) {
	d.b, d.err = b, nil
	h := d.head()
	r := store.Request{ID: h.id, EndedAt: h.endedAt, ClientKey: h.key, Model: h.model, Connection: h.conn, Status: h.status,
		Code: h.code, Attempts: h.attempts, Usage: h.usage, Detail: b}
	if len(h.provider) > 0 {
		scratch = append(append(append(scratch[:0], h.provider...), '/'), h.upstream...)
		r.Target = d.names.of(scratch)
	}
	if h.endedAt.IsZero() {
		r.EndedAt = h.at
	} else {
		r.Duration = max(0, h.endedAt.Sub(h.at))
	}
	if h.attempts > 0 && h.outcome != gateway.Success {
		r.Outcome = h.outcome.String()
	}
	return r, scratch, d.err
}

// decodeJourney reads a whole journey. Nothing of b is kept.
func decodeJourney(b []byte) (*gateway.Journey, error) {
	d, j := decoder{}, new(gateway.Journey)
	if err := d.journey(b, j); err != nil {
		return nil, err
	}
	return j, nil
}

// journey reads a whole journey into j, whose lists are used again.
func (d *decoder) journey(b []byte, j *gateway.Journey) error {
	d.b, d.err = b, nil
	h := d.head()
	clear(j.Reasons)
	*j = gateway.Journey{ID: h.id, At: h.at, EndedAt: h.endedAt, ClientKey: gateway.ClientKeyID(h.key), Model: h.model,
		Status: h.status, Code: h.code, Usage: h.usage, Stream: h.flags&bitStream != 0,
		Path: j.Path[:0], Excluded: j.Excluded[:0], Reasons: j.Reasons, Waits: j.Waits[:0], Attempts: j.Attempts[:0]}
	if h.flags&bitServed != 0 {
		j.Served = gateway.Target{Provider: gateway.ProviderID(h.provider), Model: gateway.ModelID(h.upstream)}
		j.Connection = gateway.ConnectionID(h.conn)
	}
	d.tail(j)
	if h.flags&bitSlim == 0 && d.err == nil {
		for range min(h.attempts, len(d.b)) {
			j.Attempts = append(j.Attempts, d.attempt(j))
		}
	}
	return d.err
}

func (d *decoder) tail(j *gateway.Journey) {
	j.Protocol = gateway.Protocol(d.byte())
	j.Combo, j.Strategy = d.name(), d.name()
	for range d.count() {
		j.Path = append(j.Path, d.name())
	}
	j.Tokens, j.PoolSize = int(d.int()), int(d.int())
	j.Served.Connection, j.Served.Weight = gateway.ConnectionID(d.str()), int(d.int())
	for range d.count() {
		x := gateway.Exclusion{Target: d.target()}
		x.Target.Connection, x.Target.Weight = gateway.ConnectionID(d.name()), int(d.int())
		x.Connection = gateway.ConnectionID(d.name())
		x.Layer, x.Reason = gateway.Layer(d.byte()), gateway.Reason(d.byte())
		x.Until = d.time()
		j.Excluded = append(j.Excluded, x)
	}
	for range d.count() {
		name := d.name()
		if j.Reasons == nil {
			j.Reasons = map[string]int{}
		}
		j.Reasons[name] = int(d.int())
	}
	for range d.count() {
		w := gateway.Wait{At: d.time(), Reason: gateway.Reason(d.byte())}
		w.For = time.Duration(d.int())
		j.Waits = append(j.Waits, w)
	}
	j.Committed = d.time()
	j.Error = d.str()
	j.Overhead = d.int()
	if d.version >= withSession {
		j.Session, j.Bound, j.Moved = d.str(), gateway.ConnectionID(d.str()), gateway.Reason(d.byte())
	}
	if d.version >= withOperation {
		j.Operation = gateway.Operation(d.byte())
	}
	if d.version >= withCopy {
		j.CopyOf, j.Shared = gateway.RequestID(d.str()), d.byte() == 1
	}
}

func (d *decoder) attempt(j *gateway.Journey) (a gateway.Attempt) {
	flags := d.byte()
	a.Probe, a.Uncounted = flags&bitProbe != 0, flags&bitUncounted != 0
	a.Why, a.Kind = gateway.Reason(d.byte()), gateway.Kind(d.byte())
	a.Scope, a.Reason = gateway.Scope(d.byte()), gateway.Reason(d.byte())
	a.N = int(d.int())
	a.Target = d.target()
	if flags&bitPinned != 0 {
		a.Target.Connection, a.Target.Weight = gateway.ConnectionID(d.name()), int(d.int())
	}
	a.Connection = gateway.ConnectionID(d.name())
	a.BeganAt, a.HeadersAt, a.ContentAt, a.EndedAt = d.time(), d.time(), d.time(), d.time()
	a.Bytes, a.Status = d.int(), int(d.int())
	a.Usage = j.Usage
	if flags&bitOwnUsage != 0 {
		a.Usage = d.usage()
	}
	if flags&bitMore != 0 {
		a.Rule, a.Message = d.name(), d.str()
		a.RetryAfter = float64(d.int()) / 1e6
		a.Before, a.After = d.name(), d.name()
	}
	return a
}

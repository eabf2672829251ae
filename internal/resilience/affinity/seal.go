package affinity

import (
	"time"
	"unique"

	"spillway/internal/gateway"
)

// Maker is the account that made an encrypted text.
type Maker struct {
	Account string
	At      time.Time
}

// Live reports whether the maker is still remembered.
func (m Maker) Live(c Config, now time.Time) bool { return now.Sub(m.At) <= c.PinTTL }

// PeekSeal returns the account that made an encrypted text.
func (r *Room) PeekSeal(s gateway.Seal, now time.Time) (account string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.seals.find(Key(s))
	if e == nil || !e.value.Live(r.cfg, now) {
		return "", false
	}
	return e.value.Account, true
}

// RecordSeal notes that an account has made an encrypted text. It is not kept over a restart.
func (r *Room) RecordSeal(s gateway.Seal, account string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cfg := r.cfg
	if cfg.PinTTL <= 0 {
		return
	}
	r.seals.put(Key(s)).value = Maker{Account: unique.Make(account).Value(), At: now}
	r.seals.trim(func(m *Maker) bool { return !m.Live(cfg, now) }, func(*entry[Maker]) {})
}

package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience/breaker"
	"spillway/internal/resilience/cooldown"
	"spillway/internal/resilience/gate"
	"spillway/internal/resilience/health"
	"spillway/internal/resilience/lockout"
	"spillway/internal/resilience/outage"
	"spillway/internal/resilience/queue"
	"spillway/internal/resilience/rate"
)

// builtin is the profile of a class: the values that everything else is laid over. An unknown profile, which is reported
// elsewhere, gives the recommended one.
func builtin(profile string, class gateway.Class) tree {
	r := Resilience{Profile: profile, Health: health.Default(), Outage: outage.Default(),
		Affinity: defaultAffinity(), Streams: defaultStreams()}
	name := profile
	if name == "omniroute" {
		name = "omniroute-" + class.String()
	}
	r.Breaker, r.Cooldown, r.Lockout = breaker.Recommended(), cooldown.Default(class), lockout.Default(class)
	r.Pacing = Pacing{Gate: gate.Default(), Queue: queue.Default(), Rates: rate.Default()}
	if b, ok := breaker.Preset(name); ok {
		r.Breaker = b
	}
	r.Breaker = r.Breaker.OuterGate(class)
	if strings.HasPrefix(name, "omniroute-") { // the other profiles have neither of their own: the class decides
		if c, ok := cooldown.Preset(name); ok {
			r.Cooldown = c
		}
		if c, ok := lockout.Preset(name); ok {
			r.Lockout = c
		}
	}
	if q, ok := queue.Preset(name); ok {
		r.Pacing.Queue = q
	}
	if p, ok := rate.Preset(name); ok {
		r.Pacing.Rates = p
	}
	if g, ok := gate.Preset(name); ok {
		r.Pacing.Gate = g
	}
	return tree{Resilience: r, Timeouts: defaultTimeouts(class)}
}

// validate lists the values that do not go together, at the place where one of them is written.
func (s *Settings) validate(prefix string) []Problem {
	var out []Problem
	room := func(path string, err error) {
		for _, e := range splitErrors(err) {
			field, _, ok := strings.Cut(e.Error(), ":")
			full := path
			if ok && !strings.Contains(field, " ") {
				full = path + "." + field
			}
			out = append(out, s.placed(prefix, path, full, e.Error()))
		}
	}
	room("resilience.breaker", s.Breaker.Validate())
	room("resilience.cooldown", s.Cooldown.Validate())
	room("resilience.lockout", s.Lockout.Validate())
	room("resilience.pacing", s.Pacing.Gate.Validate())
	room("resilience.pacing.queue", s.Pacing.Queue.Validate())
	room("resilience.pacing.rates", s.Pacing.Rates.Validate())
	room("resilience.streams.watchdog", s.Streams.Watchdog.Validate())
	room("resilience.health", s.Health.Validate())
	room("resilience.outage", s.Outage.Validate())
	room("resilience.affinity", s.Affinity.Validate())
	room("resilience.streams", s.Streams.Validate())
	room("timeouts", s.Timeouts.Validate())
	return append(out, s.tooLarge(prefix)...)
}

// placed is a problem at the place where path is written; else where a value of its room that the message names is, else
// where the last value of the room is.
func (s *Settings) placed(prefix, room, path, msg string) Problem {
	o, ok := s.origins[path]
	if !ok {
		o = s.nearby(room, msg)
		if o.Path != "" && strings.HasPrefix(path, room+".") {
			o.Path = o.Path[:strings.LastIndexByte(o.Path, '.')+1] + path[len(room)+1:]
		}
	}
	if _, rest, cut := strings.Cut(msg, ": "); cut && path != room {
		msg = rest
	}
	msg = mask(msg)
	switch {
	case o.Path != "":
		return Problem{o.Pos.File, o.Pos.Line, o.Pos.Col, o.Path, msg}
	case o.Layer == "environment":
		return Problem{File: o.Name, Path: path, Message: msg}
	}
	return Problem{Path: join(prefix, path), Message: msg}
}

// nearby is the origin of a written value of a room, the one that the message names if there is one.
func (s *Settings) nearby(room, msg string) Origin {
	var best Origin
	named := false
	for _, p := range slices.Sorted(maps.Keys(s.origins)) {
		field, ok := strings.CutPrefix(p, room+".")
		if !ok {
			continue
		}
		o, mentions := s.origins[p], strings.Contains(msg, field)
		later := o.Pos.Line > best.Pos.Line || o.Pos.Line == best.Pos.Line && o.Pos.Col > best.Pos.Col || best.Layer == ""
		if mentions && !named || mentions == named && later {
			best, named = o, mentions
		}
	}
	return best
}

// Validate lists what is out of range.
func (a Affinity) Validate() error {
	return atLeast(map[string]int64{"ttl": int64(a.TTL), "return_idle": int64(a.ReturnIdle),
		"return_tokens": int64(a.ReturnTokens), "pin_ttl": int64(a.PinTTL)})
}

// Validate lists what is out of range.
func (s Streams) Validate() error {
	var errs []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	add(s.EarlyCommitAfter <= 0, "early_commit_after: must be above 0s; early_commit: off switches it off")
	add(s.HoldBytes < 1024, "hold_bytes: must be at least 1KiB")
	add(s.HoldEvents < 1, "hold_events: must be at least 1")
	add(s.Heartbeat < time.Second, "heartbeat: must be at least 1s")
	return joined(errs)
}

// Validate lists what is out of range.
func (t Timeouts) Validate() error {
	var errs []error
	for _, c := range []struct {
		name string
		d    time.Duration
	}{{"connect", t.Connect}, {"first_content", t.FirstContent}, {"last_chance", t.LastChance}, {"idle", t.Idle},
		{"headers", t.Headers}, {"stream_total", t.StreamTotal}, {"request", t.Request}} {
		if c.d <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be above 0s; only total may be off", c.name))
		} else if c.d > 24*time.Hour {
			errs = append(errs, fmt.Errorf("%s: must be at most 24h", c.name))
		}
	}
	if t.LastChance < t.FirstContent {
		errs = append(errs, fmt.Errorf("last_chance: must be at least first_content (%s)", t.FirstContent))
	}
	return joined(errs)
}

package lane

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

func candidate(id string, low, reset bool, p gateway.Protocol) gateway.Candidate {
	return gateway.Candidate{Model: "m", Connection: &gateway.Connection{ID: gateway.ConnectionID(id), LowPriority: low, AutoReset: reset,
		Provider: &gateway.Provider{ID: "p", Protocols: []gateway.Protocol{p}}, Meta: map[string]string{"organization": "org-1"}}}
}

func wall(now time.Time) *Attempt {
	h := http.Header{}
	h.Set(Anthropic.Wall, "rejected")
	h.Set(Anthropic.Offer, "treatment")
	h.Set(Anthropic.Reset, strconv.FormatInt(now.Add(time.Hour).Unix(), 10))
	return &Attempt{Status: 429, Header: h, Again: true}
}

func TestRoom(t *testing.T) {
	var told []string
	r := New(Options{OnChange: func(s resilience.Status, _ time.Time) { told = append(told, s.Key+" "+s.State) }})
	if r.Bind(candidate("a", false, false, gateway.Anthropic)) != nil || r.Bind(candidate("a", true, true, gateway.OpenAI)) != nil {
		t.Error("a handle for who wants nothing, or whose provider has no walls")
	}
	a, b := r.Bind(candidate("a", true, false, gateway.Anthropic)), r.Bind(candidate("b", true, false, gateway.Anthropic))
	if _, _, ok := a.Slow(t0); ok {
		t.Error("slow before the first wall")
	}
	if m := a.Answered(wall(t0), t0); m.Do != Again {
		t.Fatalf("%+v", m)
	}
	again := r.Bind(candidate("a", true, false, gateway.Anthropic))
	if name, value, ok := again.Slow(t0); !ok || name != "Anthropic-Usage-Limit" || value != "slow" {
		t.Errorf("%s: %s, %t", name, value, ok)
	}
	if _, _, ok := b.Slow(t0); ok {
		t.Error("the lane is another connection's")
	}
	if _, _, ok := a.Slow(t0.Add(61 * time.Minute)); ok {
		t.Error("slow behind the turn of the window")
	}
	if list := r.Status(t0); len(list) != 1 || list[0].State != "slow_lane" || len(told) != 1 || told[0] != "connection:a slow_lane" {
		t.Errorf("%+v, told %v", list, told)
	}
	if a.ClaimPath() != "/api/organizations/org-1/reset_rate_limits" {
		t.Error(a.ClaimPath())
	}
	r.Retain([]*gateway.Connection{candidate("b", true, false, gateway.Anthropic).Connection})
	if len(r.Status(t0)) != 0 {
		t.Error("a connection that is gone keeps its lane")
	}
}

func TestResetThenFullSpeed(t *testing.T) {
	h := New(Options{}).Bind(candidate("a", true, true, gateway.Anthropic))
	if m := h.Answered(wall(t0), t0); m.Do != AskReset {
		t.Fatalf("%+v", m)
	}
	if m := h.Claimed(wall(t0), Claim{Done: true}, t0); m.Do != Again || m.Why != gateway.LimitReset {
		t.Errorf("%+v", m)
	}
	if _, _, ok := h.Slow(t0); ok {
		t.Error("slow, although the limit was reset")
	}
	if m := h.Answered(wall(t0), t0.Add(time.Minute)); m.Do != Again || m.Why != gateway.SlowLane {
		t.Errorf("%+v: the next wall takes the lane", m)
	}
}

package app

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab/client"
)

// subscription is a fake provider with a usage wall, a slow lane and resets.
type subscription struct {
	mu      sync.Mutex
	walled  bool          // the limit is used up
	turns   time.Time     // and until then
	offers  bool          // the lane
	slots   []string      // what the lane says, one word per request; then "active"
	retry   time.Duration // said with slot_busy
	seen    []string      // requests: slow or plain
	resets  int           // claims
	resetTo bool          // a reset is to be had
	asked   int           // questions for one
	at      []time.Time
}

func (s *subscription) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := w.Header()
	h.Set("Content-Type", "application/json")
	switch {
	case strings.HasPrefix(r.URL.Path, "/api/oauth/usage"):
		s.asked++
		fmt.Fprintf(w, `{"five_hour":{"utilization":100},"juniper_tide":{"arm":"reset","available":%t}}`, s.resetTo)
		return
	case strings.HasPrefix(r.URL.Path, "/api/organizations/org-1/"):
		body, _ := io.ReadAll(r.Body)
		if string(body) != `{"program":"juniper_tide"}` || r.Header.Get("X-Api-Key") == "" && r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		s.resets++
		s.walled, s.resetTo = false, false
		io.WriteString(w, `{"result":"reset"}`)
		return
	}
	slow := r.Header.Get("Anthropic-Usage-Limit") == "slow"
	s.seen, s.at = append(s.seen, map[bool]string{true: "slow", false: "plain"}[slow]), append(s.at, time.Now())
	if s.walled && time.Now().After(s.turns) {
		s.walled = false
	}
	word := "active"
	if slow && len(s.slots) > 0 {
		word, s.slots = s.slots[0], s.slots[1:]
	}
	if s.walled {
		h.Set("Anthropic-Ratelimit-Unified-Status", "rejected")
		h.Set("Anthropic-Ratelimit-Unified-Reset", strconv.FormatInt(s.turns.Unix(), 10))
		if s.offers {
			h.Set("Anthropic-Ratelimit-Unified-Slow-Offer", "treatment")
		}
	}
	if slow {
		h.Set("Anthropic-Ratelimit-Unified-Slow-Status", word)
	}
	if s.walled && !(slow && word == "active") {
		if word == "slot_busy" && s.retry > 0 {
			h.Set("Anthropic-Ratelimit-Unified-Slow-Retry-After", strconv.Itoa(int(s.retry.Seconds())))
		}
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit."}}`)
		return
	}
	io.WriteString(w, `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn",`+
		`"usage":{"input_tokens":1,"output_tokens":1}}`)
}

// set changes the provider.
func (s *subscription) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// took are the requests since the last call.
func (s *subscription) took() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := strings.Join(s.seen, " ")
	s.seen = nil
	return out
}

// walls is a gateway over one subscription and a spare provider.
func walls(t *testing.T, options string, s *subscription, test func(b *bubble)) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.lenient = true // claims are calls, but no attempts
		b.Handle("sub", s.ServeHTTP)
		b.Source("spare")
		s.turns = time.Now().Add(3 * time.Hour)
		b.Open(strings.Replace(providers("sub", "spare"), "provider: sub, key", "provider: sub, "+options+" key", 1) + combo("sub", "spare"))
		test(b)
	})
}

func (b *bubble) message(t *testing.T) (provider string, took time.Duration) {
	t.Helper()
	began := time.Now()
	r := b.Ask(client.Request{Protocol: gateway.Anthropic, Model: "smart"})
	if r.Status != 200 {
		t.Fatalf("%s\n%s", describe(r), b.Story())
	}
	return r.Header.Get("X-Spillway-Provider"), time.Since(began)
}

// TestSlowLane: nothing is sent before the first wall; the offer is taken at once, on the same account, and nothing cools;
// the lane is left when the window turns.
func TestSlowLane(t *testing.T) {
	s := &subscription{offers: true}
	walls(t, "low_priority_mode: true,", s, func(b *bubble) {
		b.message(t)
		if got := s.took(); got != "plain" {
			t.Errorf("before the wall: %s", got)
		}
		s.set(func() { s.walled = true })
		who, took := b.message(t)
		if got := s.took(); who != "sub" || got != "plain slow" || took > time.Second {
			t.Errorf("at the wall: %s by %s in %s\n%s", got, who, took, b.Story())
		}
		j := b.Journeys()[0]
		if a := j.Attempts; len(a) != 2 || a[0].Reason != gateway.UsageWall || !a[0].Uncounted || a[1].Why != gateway.SlowLane {
			t.Errorf("the decision log\n%s", b.Story())
		}
		b.NothingOutBut("slow_lane")
		b.message(t)
		if got := s.took(); got != "slow" {
			t.Errorf("in the lane: %s", got)
		}
		time.Sleep(3*time.Hour + time.Minute)
		b.message(t)
		if got := s.took(); got != "plain" {
			t.Errorf("in the next window: %s", got)
		}
	})
}

// TestSlowLaneOffByDefault: who has not opted in sees an ordinary 429.
func TestSlowLaneOffByDefault(t *testing.T) {
	s := &subscription{offers: true, walled: true, resetTo: true}
	walls(t, "", s, func(b *bubble) {
		if who, _ := b.message(t); who != "spare" {
			t.Error(who)
		}
		if got := s.took(); got != "plain" || s.asked+s.resets != 0 {
			t.Errorf("%s, %d questions, %d claims", got, s.asked, s.resets)
		}
		if len(b.Out()) == 0 {
			t.Error("a wall cools the account")
		}
	})
}

// TestSlotsAreWaitedFor, with jitter and inside the deadline; when that is too long, the lane is over for ten minutes and
// the request goes elsewhere.
func TestSlotsAreWaitedFor(t *testing.T) {
	s := &subscription{offers: true, walled: true, slots: []string{"slot_busy", "slot_busy"}, retry: 60 * time.Second}
	walls(t, "low_priority_mode: true,", s, func(b *bubble) {
		who, took := b.message(t)
		if got := s.took(); who != "sub" || got != "plain slow slow slow" {
			t.Errorf("%s by %s\n%s", got, who, b.Story())
		}
		if took < 84*time.Second || took > 156*time.Second || s.at[2].Sub(s.at[1]) == s.at[3].Sub(s.at[2]) {
			t.Errorf("two waits of about a minute took %s\n%s", took, b.Story())
		}
		j := b.Journeys()[0]
		if len(j.Waits) == 0 || j.Waits[0].Reason != gateway.WaitForLane || j.Attempts[1].Reason != gateway.LaneBusy {
			t.Errorf("the decision log\n%s", b.Story())
		}
		b.NothingOutBut("slow_lane")

		many := make([]string, 100)
		for i := range many {
			many[i] = "slot_busy"
		}
		s.set(func() { s.slots, s.retry = many, 5*time.Minute })
		who, took = b.message(t)
		if got := s.took(); who != "spare" || !strings.HasPrefix(got, "slow") || took > 10*time.Minute {
			t.Errorf("%s by %s in %s\n%s", got, who, took, b.Story())
		}
		ended := time.Now()
		time.Sleep(9 * time.Minute)
		for range 3 {
			b.message(t)
		}
		if got := s.took(); strings.Contains(got, "slow") {
			t.Errorf("%s after %s: the lane is held for ten minutes", got, time.Since(ended))
		}
	})
}

// TestLaneEnds on each of the words that a provider has for it; the answer is then an ordinary 429.
func TestLaneEnds(t *testing.T) {
	for _, word := range []string{"weekly_limit", "budget_exhausted", "off", "ineligible"} {
		s := &subscription{offers: true, walled: true, slots: []string{word}}
		walls(t, "low_priority_mode: true,", s, func(b *bubble) {
			if who, _ := b.message(t); who != "spare" {
				t.Errorf("%s: %s", word, who)
			}
			if got := s.took(); got != "plain slow" {
				t.Errorf("%s: %s", word, got)
			}
			if out := strings.Join(b.Out(), "; "); !strings.Contains(out, "held") || !strings.Contains(out, "cool") {
				t.Errorf("%s: %s", word, out)
			}
		})
	}
}

// TestLimitReset: a reset is claimed once, and the request goes on at full speed; at the next wall the lane is taken.
func TestLimitReset(t *testing.T) {
	s := &subscription{offers: true, walled: true, resetTo: true}
	walls(t, "low_priority_mode: true, auto_limit_reset: true, meta: {organization: org-1},", s, func(b *bubble) {
		who, _ := b.message(t)
		if got := s.took(); who != "sub" || got != "plain plain" || s.asked != 1 || s.resets != 1 {
			t.Errorf("%s by %s, %d questions, %d claims\n%s", got, who, s.asked, s.resets, b.Story())
		}
		if a := b.Journeys()[0].Attempts; len(a) != 2 || a[1].Why != gateway.LimitReset {
			t.Errorf("the decision log\n%s", b.Story())
		}
		s.set(func() { s.walled, s.turns = true, time.Now().Add(3*time.Hour) })
		b.message(t)
		if got := s.took(); got != "plain slow" || s.asked != 1 || s.resets != 1 {
			t.Errorf("%s, %d questions, %d claims: one reset a week", got, s.asked, s.resets)
		}
	})
}

// TestManyAtTheWall: requests that hit it at once claim one reset among them.
func TestManyAtTheWall(t *testing.T) {
	s := &subscription{offers: true, walled: true, resetTo: true}
	walls(t, "low_priority_mode: true, auto_limit_reset: true, meta: {organization: org-1},", s, func(b *bubble) {
		for _, r := range b.atOnce(20, client.Request{Protocol: gateway.Anthropic, Model: "smart"}) {
			if r.Status != 200 {
				t.Errorf("%s", describe(r))
			}
		}
		if out := strings.Join(b.Out(), "; "); strings.Contains(out, "cool") {
			t.Errorf("a wall that was passed cools the account: %s", out)
		}
		if s.asked != 1 || s.resets != 1 {
			t.Errorf("%d questions, %d claims", s.asked, s.resets)
		}
	})
}

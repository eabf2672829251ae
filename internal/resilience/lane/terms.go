package lane

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Terms are how a provider speaks of its usage walls: the names of headers, the words in them, and the numbers where it
// says none. Everything that the room knows about a provider is in here.
type Terms struct {
	// The wall: a 429 with this header and word. Other 429s are bursts, and none of this room's business.
	Wall     string
	WallWord string
	// When the window of the wall turns, in Unix seconds.
	Reset string
	// The offer of the slow lane, on the wall.
	Offer     string
	OfferWord string
	// What a request in the slow lane carries.
	Slow      string
	SlowValue string

	// What the answers of the slow lane say about it.
	Slot     string
	Busy     string            // no slot is free now
	BusyHTTP int               // a status that means the same
	Ends     map[string]string // words that end the lane, and the reason that people see
	Spent    string            // the word of Ends behind which nothing is to be had until the budget's own reset
	Overage  string            // "true": paid usage carries the account over the wall
	Retry    string            // seconds until it is worth asking for a slot again
	Most     string            // seconds after which waiting for slots ends

	Grace             time.Duration // behind the turn of the window
	Hold              time.Duration // behind the end of the lane: no offer is accepted
	SpentMost         time.Duration // the longest time for which a spent budget is believed
	Wait              time.Duration // for a slot, where the provider does not say
	WaitLeast         time.Duration
	WaitMost          time.Duration
	Jitter            float64       // of a wait, in both directions, as a share
	MaxWait           time.Duration // for slots, where the provider does not say
	MaxWaitLeast      time.Duration
	MaxWaitMost       time.Duration
	Margin            time.Duration // of the request's deadline that no wait uses up
	ClaimPath         string        // POST, {organization} is filled in
	OfferPath         string        // GET
	OfferBlock        string        // member of its answer
	Program           string        // what is claimed
	ClaimLease        time.Duration // a claim that has not ended by then has failed
	ClaimAgain        time.Duration // behind a claim, where the provider does not say
	ClaimFailed       time.Duration // behind one that failed
	ClaimArm          string        // of an offer that can be claimed
	ClaimDone         []string      // results behind which the request goes at full speed
	ClaimKeepsForNext string        // the result of ClaimDone that has used nothing up
}

// Anthropic are the terms of subscriptions at Anthropic. Source: seed 002, "usage wall".
var Anthropic = &Terms{
	Wall: "Anthropic-Ratelimit-Unified-Status", WallWord: "rejected", Reset: "Anthropic-Ratelimit-Unified-Reset",
	Offer: "Anthropic-Ratelimit-Unified-Slow-Offer", OfferWord: "treatment",
	Slow: "Anthropic-Usage-Limit", SlowValue: "slow",
	Slot: "Anthropic-Ratelimit-Unified-Slow-Status", Busy: "slot_busy", BusyHTTP: 529,
	Ends:  map[string]string{"weekly_limit": "weekly_limit", "budget_exhausted": "budget_exhausted", "off": "off", "ineligible": "ineligible"},
	Spent: "budget_exhausted", Overage: "Anthropic-Ratelimit-Unified-Overage-In-Use",
	Retry: "Anthropic-Ratelimit-Unified-Slow-Retry-After", Most: "Anthropic-Ratelimit-Unified-Slow-Max-Wait",
	Grace: time.Minute, Hold: 10 * time.Minute, SpentMost: 8 * 24 * time.Hour,
	Wait: 20 * time.Second, WaitLeast: 5 * time.Second, WaitMost: 10 * time.Minute, Jitter: 0.3,
	MaxWait: 20 * time.Minute, MaxWaitLeast: time.Minute, MaxWaitMost: 6 * time.Hour, Margin: 5 * time.Second,
	OfferPath: "/api/oauth/usage?at_wall=1&skip_spend=1", OfferBlock: "juniper_tide", ClaimArm: "reset", Program: "juniper_tide",
	ClaimPath: "/api/organizations/{organization}/reset_rate_limits", ClaimLease: 30 * time.Second, ClaimAgain: 7 * 24 * time.Hour,
	ClaimFailed: 15 * time.Minute, ClaimDone: []string{"reset", "not_limited"}, ClaimKeepsForNext: "not_limited",
}

// Answer is what the head of an answer says about walls and lanes.
type Answer struct {
	Wall    bool
	Offered bool
	Busy    bool
	End     string // why the lane ends; "" = it goes on
	Spent   bool
	ResetAt time.Time     // zero = not said
	Wait    time.Duration // 0 = not said
	MaxWait time.Duration // 0 = not said
}

// extraUsage is the end of a lane whose account is carried over the wall by paid usage.
const extraUsage = "extra_usage"

// Read reads the head of an answer.
func (t *Terms) Read(status int, h http.Header, now time.Time) (a Answer) {
	get := func(name string) string {
		if v := h[name]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	a.Wall = status == http.StatusTooManyRequests && get(t.Wall) == t.WallWord
	a.Offered = get(t.Offer) == t.OfferWord
	slot := get(t.Slot)
	a.Busy = slot == t.Busy && status == http.StatusTooManyRequests || status == t.BusyHTTP
	a.End, a.Spent = t.Ends[slot], slot == t.Spent
	if get(t.Overage) == "true" {
		a.End, a.Spent, a.Offered = extraUsage, false, false
	}
	if at := seconds(get(t.Reset)); at > 0 && at < math.MaxInt32*4 {
		a.ResetAt = time.Unix(int64(at), 0)
		if !a.ResetAt.After(now) {
			a.ResetAt = time.Time{}
		}
	}
	a.Wait, a.MaxWait = length(get(t.Retry)), length(get(t.Most))
	return a
}

func seconds(s string) float64 {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
		return 0
	}
	return f
}

// length is a number of seconds, at most a month.
func length(s string) time.Duration {
	return time.Duration(min(seconds(s), 30*24*3600) * float64(time.Second))
}

// Claim is what came of an attempt to have a limit reset.
type Claim struct {
	Failed bool      // nothing is known
	Done   bool      // the account is not limited (any more)
	Kept   bool      // and nothing was used up for that
	NextAt time.Time // when the next one may be claimed; zero = not said
}

// ReadOffer reads the answer to the question whether a reset is to be had now. When it is not, the claim says until when.
func (t *Terms) ReadOffer(body []byte) (available bool, c Claim) {
	var all map[string]json.RawMessage
	var block struct {
		Arm       string `json:"arm"`
		Available bool   `json:"available"`
		Next      any    `json:"next_available_at"`
	}
	if json.Unmarshal(body, &all) != nil || json.Unmarshal(all[t.OfferBlock], &block) != nil {
		return false, Claim{Failed: true}
	}
	return block.Available && block.Arm == t.ClaimArm, Claim{NextAt: instant(block.Next)}
}

// ReadClaim reads the answer to a claim.
func (t *Terms) ReadClaim(status int, body []byte) Claim {
	var answer struct {
		Result string `json:"result"`
		Next   any    `json:"next_available_at"`
	}
	if status < 200 || status > 299 || json.Unmarshal(body, &answer) != nil || answer.Result == "" {
		return Claim{Failed: true}
	}
	c := Claim{NextAt: instant(answer.Next), Kept: answer.Result == t.ClaimKeepsForNext}
	for _, done := range t.ClaimDone {
		c.Done = c.Done || answer.Result == done
	}
	return c
}

// instant reads a time as JSON has it: text of RFC 3339, or Unix seconds.
func instant(v any) time.Time {
	switch x := v.(type) {
	case string:
		at, err := time.Parse(time.RFC3339, x)
		if err == nil {
			return at
		}
	case float64:
		if x > 0 && x < math.MaxInt32*4 {
			return time.Unix(int64(x), 0)
		}
	}
	return time.Time{}
}

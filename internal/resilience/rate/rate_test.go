package rate

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

func at(d time.Duration) time.Time { return t0.Add(d) }

func bind(l gateway.RateLimits) (*Room, *Handle) {
	r := New(Options{})
	return r, r.Bind(candidate(l), Default())
}

// go1 lets one request of some tokens go at an instant, or fails the test.
func go1(t *testing.T, h *Handle, tokens int, now time.Time) resilience.Permit {
	t.Helper()
	p, r := h.Allow(t.Context(), &resilience.Ask{Tokens: tokens}, now)
	if p == nil {
		t.Fatalf("refused at %s: %+v", now.Sub(t0), r)
	}
	return p
}

func refusedUntil(t *testing.T, h *Handle, tokens int, now, until time.Time) {
	t.Helper()
	p, r := h.Allow(t.Context(), &resilience.Ask{Tokens: tokens}, now)
	if p != nil || r.Verdict != resilience.Delayed || r.Layer != gateway.LayerPacing || !r.Until.Equal(until) {
		t.Fatalf("at %s: want a delay until %s, got %+v (%s)", now.Sub(t0), until.Sub(t0), r, r.Until.Sub(t0))
	}
}

func ok(used int, began, ended time.Time) gateway.Outcome {
	return gateway.Outcome{Kind: gateway.Success, BeganAt: began, EndedAt: ended, Usage: gateway.Usage{Input: used}}
}

func TestRequestsPerMinute(t *testing.T) {
	_, h := bind(gateway.RateLimits{RPM: 3})
	for i := range 3 {
		go1(t, h, 0, at(time.Duration(i)*10*time.Second))
	}
	refusedUntil(t, h, 0, at(30*time.Second), at(window))
	go1(t, h, 0, at(window))
	refusedUntil(t, h, 0, at(window), at(window+10*time.Second))
}

func TestMinInterval(t *testing.T) {
	_, h := bind(gateway.RateLimits{MinInterval: 5 * time.Second})
	p := go1(t, h, 0, t0)
	refusedUntil(t, h, 0, at(time.Second), at(5*time.Second))
	p.Record(gateway.Outcome{Kind: gateway.Canceled}, at(time.Second)) // it never left
	go1(t, h, 0, at(2*time.Second))
	refusedUntil(t, h, 0, at(3*time.Second), at(7*time.Second))
}

func TestTokensReserveThenSettle(t *testing.T) {
	_, h := bind(gateway.RateLimits{TPM: 100})
	a := go1(t, h, 60, t0)
	refusedUntil(t, h, 60, t0, at(window))
	a.Record(ok(40, t0, at(time.Second)), at(time.Second)) // 20 come back
	b := go1(t, h, 60, at(2*time.Second))
	b.Record(gateway.Outcome{Kind: gateway.ServiceError, BeganAt: at(2 * time.Second)}, at(3*time.Second)) // all of it comes back
	c := go1(t, h, 60, at(4*time.Second))
	c.Record(ok(90, at(4*time.Second), at(5*time.Second)), at(5*time.Second)) // 130 are used: 30 count from now
	refusedUntil(t, h, 60, at(6*time.Second), at(window+4*time.Second))
}

// A request that alone has more tokens than the limit goes when nothing else counts, and nothing goes beside it.
func TestTooLargeGoesAlone(t *testing.T) {
	_, h := bind(gateway.RateLimits{TPM: 100})
	go1(t, h, 10, t0)
	refusedUntil(t, h, 500, at(time.Second), at(window))
	go1(t, h, 500, at(window))
	refusedUntil(t, h, 1, at(window), at(2*window))
}

// Accounts are what is limited: two connections of one share a limit, two accounts do not.
func TestOneAccountTwoConnections(t *testing.T) {
	r := New(Options{})
	c := candidate(gateway.RateLimits{RPM: 1})
	one := r.Bind(c, Default())
	twin, other := *c.Connection, *c.Connection
	twin.ID, twin.Identity = "twin", "twin#2"
	other.ID, other.Identity, other.Account = "other", "other#3", "elsewhere"
	go1(t, one, 0, t0)
	refusedUntil(t, r.Bind(gateway.Candidate{Connection: &twin}, Default()), 0, t0, at(window))
	go1(t, r.Bind(gateway.Candidate{Connection: &other}, Default()), 0, t0)
}

func TestNoLimitsCostNothing(t *testing.T) {
	_, h := bind(gateway.RateLimits{})
	ask := &resilience.Ask{Tokens: 9}
	header := http.Header{"Content-Type": {"application/json"}, "Date": {"today"}}
	if !h.Plain() || !(*Handle)(nil).Plain() {
		t.Error("an account without limits must be plain")
	}
	if n := testing.AllocsPerRun(100, func() {
		h.Peek(ask, t0)
		p, _ := h.Allow(t.Context(), ask, t0)
		h.Heard(p, header, t0)
		p.Record(gateway.Outcome{}, t0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	_, limited := bind(gateway.RateLimits{RPM: 5, TPM: 50})
	go1(t, limited, 9, t0)
	if n := testing.AllocsPerRun(100, func() { limited.Peek(ask, t0) }); n != 0 {
		t.Errorf("a look at a limited account allocates %v", n)
	}
}

func said(limit, left, reset string) http.Header {
	h := http.Header{}
	h.Set("x-ratelimit-limit-requests", limit)
	h.Set("x-ratelimit-remaining-requests", left)
	h.Set("x-ratelimit-reset-requests", reset)
	return h
}

// TestHeaders reads what providers write.
func TestHeaders(t *testing.T) {
	anthropic := http.Header{}
	for k, v := range map[string]string{"requests-limit": "50", "requests-remaining": "49", "requests-reset": t0.Add(90 * time.Second).Format(time.RFC3339),
		"tokens-limit": "40000", "tokens-remaining": "0", "tokens-reset": t0.Add(30 * time.Second).Format(time.RFC3339)} {
		anthropic.Set("anthropic-ratelimit-"+k, v)
	}
	none := bucket{limit: -1, left: -1}
	for name, c := range map[string]struct {
		header           http.Header
		requests, tokens bucket
	}{
		"openai":       {said("60", "59", "1s"), bucket{60, 59, time.Second}, none},
		"long":         {said("14400", "14370", "2m59.56s"), bucket{14400, 14370, 179560 * time.Millisecond}, none},
		"milliseconds": {said("60", "0", "6ms"), bucket{60, 0, 6 * time.Millisecond}, none},
		"seconds":      {said("60", "0", "12"), bucket{60, 0, 12 * time.Second}, none},
		"epoch":        {said("60", "0", "1767323065"), bucket{60, 0, 20 * time.Second}, none},
		"overdrawn":    {said("60", "-3", "1s"), bucket{60, 0, time.Second}, none},
		"nonsense":     {said("many", "few", "soon"), none, none},
		"past":         {said("60", "0", t0.Add(-time.Hour).Format(time.RFC3339)), bucket{60, 0, 0}, none},
		"two windows":  {said("100, 100;w=60", "7", "1s"), bucket{100, 7, time.Second}, none},
		"anthropic":    {anthropic, bucket{50, 49, 90 * time.Second}, bucket{40000, 0, 30 * time.Second}},
	} {
		f, ok := read(families, c.header, t0)
		if !ok || f.requests != c.requests || f.tokens != c.tokens {
			t.Errorf("%s: %t %+v", name, ok, f)
		}
	}
	if _, ok := read(families, http.Header{"Retry-After": {"1"}}, t0); ok {
		t.Error("no rate-limit headers")
	}
}

// TestPreflight is the life of an account that says that nothing is left.
func TestPreflight(t *testing.T) {
	freed := 0
	r := New(Options{OnFree: func() { freed++ }})
	h := r.Bind(candidate(gateway.RateLimits{}), Default())
	first := go1(t, h, 0, t0)
	h.Heard(first, said("10", "1", "20s"), t0)
	first.Record(ok(1, t0, t0), t0)
	last := go1(t, h, 0, at(time.Second))
	p, ruling := h.Allow(t.Context(), &resilience.Ask{}, at(time.Second))
	if p != nil || ruling.Reason != gateway.QuotaPreflight || !ruling.Until.Equal(at(20*time.Second)) {
		t.Fatalf("%+v", ruling)
	}
	h.Heard(last, said("10", "0", "19s"), at(time.Second))
	last.Record(ok(1, at(time.Second), at(time.Second)), at(time.Second))
	if s := r.Status(at(2 * time.Second)); len(s) != 1 || s[0].State != "paced" || s[0].Reason != gateway.QuotaPreflight || s[0].Detail["learned_requests"] == "" {
		t.Errorf("shown as %+v", s)
	}
	refusedUntil(t, h, 0, at(10*time.Second), at(20*time.Second))
	canary := go1(t, h, 0, at(20*time.Second))
	refusedUntil(t, h, 0, at(21*time.Second), at(50*time.Second)) // one finds out, and is waited for 30 s at most
	freed = 0
	h.Heard(canary, said("10", "9", "20s"), at(22*time.Second))
	if freed == 0 {
		t.Error("whoever waits must hear that there is something left")
	}
	go1(t, h, 0, at(22*time.Second))
	if s := r.Status(at(23 * time.Second)); len(s) != 1 || s[0].State != "learned" {
		t.Errorf("shown as %+v", s)
	}
}

// A reset far away is no latch: after a quarter of an hour one request finds out.
func TestPreflightIsNoLatch(t *testing.T) {
	_, h := bind(gateway.RateLimits{})
	p := go1(t, h, 0, t0)
	h.Heard(p, said("10", "0", "200h"), t0)
	p.Record(ok(1, t0, t0), t0)
	refusedUntil(t, h, 0, at(time.Minute), at(longestRest))
	canary := go1(t, h, 0, at(longestRest))
	canary.Record(gateway.Outcome{Kind: gateway.Timeout, BeganAt: at(longestRest)}, at(longestRest+time.Second)) // it tells nothing
	go1(t, h, 0, at(longestRest+time.Second))
	silent, _ := bind(gateway.RateLimits{})
	h = silent.Bind(candidate(gateway.RateLimits{}), Default())
	p = go1(t, h, 0, t0)
	h.Heard(p, said("10", "0", ""), t0) // without a time nothing is waited for
	go1(t, h, 0, t0)
}

// A learned limit is held, never above a declared one, and forgotten after a day.
func TestLearnedLimit(t *testing.T) {
	_, h := bind(gateway.RateLimits{RPM: 5})
	p := go1(t, h, 0, t0)
	h.Heard(p, said("2", "", ""), t0)
	go1(t, h, 0, at(time.Second))
	refusedUntil(t, h, 0, at(2*time.Second), at(window))
	later := at(believedFor)
	for i := range 5 {
		go1(t, h, 0, later.Add(time.Duration(i)*time.Millisecond))
	}
	refusedUntil(t, h, 0, later.Add(time.Second), later.Add(window))
	_, h = bind(gateway.RateLimits{RPM: 2})
	p = go1(t, h, 0, t0)
	h.Heard(p, said("1000", "999", "60ms"), t0)
	go1(t, h, 0, at(time.Second))
	refusedUntil(t, h, 0, at(2*time.Second), at(window))
	off := New(Options{}).Bind(candidate(gateway.RateLimits{}), Config{})
	off.Heard(go1(t, off, 0, t0), said("1", "0", "1h"), t0)
	go1(t, off, 0, t0)
}

// A limit of ten in one second, as the answers show, is not held as ten in a minute.
func TestShortWindowsAreSeen(t *testing.T) {
	for _, c := range []struct {
		b    bucket
		want int
	}{
		{bucket{60, 59, time.Second}, 60},                     // one a second
		{bucket{10, 9, 100 * time.Millisecond}, 600},          // ten a second
		{bucket{14400, 14370, 180 * time.Second}, 14400},      // ten a minute, and all of them at once
		{bucket{500, 100, 48 * time.Second}, 500},             // a minute
		{bucket{60, -1, 0}, 60},                               // it does not say
		{bucket{30000, 29984, 32 * time.Millisecond}, 30_000}, // a minute
	} {
		l := learned{}.hear(c.b, 0, t0)
		if got := l.perMinute(t0); got != c.want {
			t.Errorf("%+v: %d a minute, want %d", c.b, got, c.want)
		}
	}
}

// What headers say belongs to the model where the provider counts per model.
func TestPerModelQuota(t *testing.T) {
	r := New(Options{})
	c := candidate(gateway.RateLimits{RPM: 3})
	c.Connection.Provider.PerModelQuota = true
	a := r.Bind(c, Default())
	c.Model = "other"
	b := r.Bind(c, Default())
	p := go1(t, a, 0, t0)
	a.Heard(p, said("10", "0", "30s"), t0)
	refusedUntil(t, a, 0, at(time.Second), at(30*time.Second))
	go1(t, b, 0, at(time.Second))
	go1(t, b, 0, at(time.Second))
	refusedUntil(t, b, 0, at(2*time.Second), at(window)) // the declared one is the account's
}

// Accounts far from a large limit are not watched; the planner is told when that changes.
func TestWatchedWhenScarce(t *testing.T) {
	var changes resilience.Changes
	r := New(Options{Changes: &changes})
	h := r.Bind(candidate(gateway.RateLimits{}), Default())
	h.Heard(nil, said("10000", "9000", "6s"), t0)
	if !h.Plain() || changes.Count() != 0 {
		t.Error("far from the limit it must stay plain")
	}
	h.Heard(nil, said("10000", "100", "59s"), t0)
	if h.Plain() || changes.Count() != 1 {
		t.Error("close to the limit it must be watched")
	}
	h.Heard(nil, said("10000", "9990", "6ms"), t0)
	if !h.Plain() || changes.Count() != 2 {
		t.Error("far from the limit again")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	_, h := bind(gateway.RateLimits{RPM: 1_000_000})
	for i := range 200_000 {
		go1(t, h, 0, at(time.Duration(i)*time.Millisecond))
	}
	if n := len(h.account.State.sent.entries); n > 2*exactEntries+2 {
		t.Errorf("%d entries", n)
	}
	if n, _ := h.account.State.sent.sums(at(200 * time.Second)); n < 60_000 || n > 61_000 {
		t.Errorf("%d in the last minute", n)
	}
}

func TestUnderConcurrency(t *testing.T) {
	r, h := bind(gateway.RateLimits{RPM: 50, TPM: 1000})
	var done sync.WaitGroup
	var mu sync.Mutex
	passed := 0
	for i := range 200 {
		done.Go(func() {
			p, _ := h.Allow(t.Context(), &resilience.Ask{Tokens: 5}, t0)
			if p == nil {
				return
			}
			mu.Lock()
			passed++
			mu.Unlock()
			h.Heard(p, said("60", "55", "5s"), t0)
			p.Record(ok(i%7, t0, t0), t0)
			r.Status(t0)
		})
	}
	done.Wait()
	if passed > 50 || passed < 40 {
		t.Errorf("%d passed", passed)
	}
	if h.account.State.unheard != 0 {
		t.Errorf("%d are still unheard", h.account.State.unheard)
	}
}

func TestPresets(t *testing.T) {
	for _, name := range []string{"recommended", "omniroute-oauth", "omniroute-apikey", "omniroute-local", "polygateway", "autorouter"} {
		if c, ok := Preset(name); !ok || c.Validate() != nil {
			t.Error(name)
		}
	}
	if _, ok := Preset("nothing"); ok {
		t.Error("unknown preset")
	}
}

func BenchmarkPlain(b *testing.B) {
	_, h := bind(gateway.RateLimits{})
	header := http.Header{"Content-Type": {"application/json"}, "Date": {"today"}, "X-Request-Id": {"1"}}
	b.ReportAllocs()
	for b.Loop() {
		p, _ := h.Allow(b.Context(), nil, t0)
		h.Heard(p, header, t0)
		p.Record(gateway.Outcome{}, t0)
	}
}

func BenchmarkLimited(b *testing.B) {
	_, h := bind(gateway.RateLimits{RPM: 1_000_000, TPM: 1_000_000_000})
	now := t0
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		p, _ := h.Allow(b.Context(), nil, now)
		p.Record(gateway.Outcome{Kind: gateway.Success, BeganAt: now}, now)
	}
}

// Two models of an account whose answers name different limits: the limits are the models' own, and one that has nothing
// left holds up no other. It is remembered.
func TestModelsWithLimitsOfTheirOwn(t *testing.T) {
	var kept []resilience.Record
	r := New(Options{Keep: func(rec resilience.Record) { kept = append(kept, rec) }})
	c := candidate(gateway.RateLimits{})
	a := r.Bind(c, Default())
	c.Model = "other"
	b := r.Bind(c, Default())
	a.Heard(go1(t, a, 0, t0), said("10", "9", "30s"), t0)
	b.Heard(go1(t, b, 0, t0), said("10", "0", "30s"), t0) // the same number: it may be the account's
	refusedUntil(t, a, 0, t0, at(30*time.Second))
	canary := go1(t, a, 0, at(30*time.Second))
	a.Heard(canary, said("500", "499", "30s"), at(31*time.Second))
	b.Heard(go1(t, b, 0, at(32*time.Second)), said("10", "0", "30s"), at(32*time.Second))
	refusedUntil(t, b, 0, at(33*time.Second), at(62*time.Second))
	go1(t, a, 0, at(33*time.Second))
	after := New(Options{})
	after.Restore(kept, at(34*time.Second))
	a, b = after.Bind(candidate(gateway.RateLimits{}), Default()), after.Bind(c, Default())
	refusedUntil(t, b, 0, at(34*time.Second), at(62*time.Second))
	b.Heard(go1(t, b, 0, at(62*time.Second)), said("10", "0", "30s"), at(62*time.Second))
	go1(t, a, 0, at(63*time.Second))
}

func TestFamiliesOfAProvider(t *testing.T) {
	for _, c := range []struct {
		speaks []gateway.Protocol
		want   int
		first  string
	}{
		{nil, 2, "X-Ratelimit-Limit-Requests"},
		{[]gateway.Protocol{gateway.OpenAI, gateway.Responses}, 1, "X-Ratelimit-Limit-Requests"},
		{[]gateway.Protocol{gateway.Anthropic}, 1, "Anthropic-Ratelimit-Requests-Limit"},
		{[]gateway.Protocol{gateway.OpenAI, gateway.Anthropic}, 2, "X-Ratelimit-Limit-Requests"},
	} {
		if got := familiesOf(&gateway.Provider{Protocols: c.speaks}); len(got) != c.want || got[0].requests.limit != c.first {
			t.Errorf("%v: %+v", c.speaks, got)
		}
	}
}

// Accounts are a provider's: one of the same name elsewhere has rates of its own.
func TestAccountsOfTwoProviders(t *testing.T) {
	r, a := bind(gateway.RateLimits{RPM: 1})
	c := candidate(gateway.RateLimits{RPM: 1})
	c.Connection.ID, c.Connection.Identity, c.Connection.Provider = "d", "d#1", &gateway.Provider{ID: "q"}
	b := r.Bind(c, Default())
	go1(t, a, 0, t0)
	go1(t, b, 0, t0)
	refusedUntil(t, a, 0, at(time.Second), at(window))
}

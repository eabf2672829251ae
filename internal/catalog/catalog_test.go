package catalog

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"spillway/internal/config"
	"spillway/internal/gateway"
)

func compile(t testing.TB, doc string) *Snapshot {
	t.Helper()
	cfg, err := config.Load(config.Source{Bytes: []byte(doc), Env: func(string) (string, bool) { return "", false }})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Compile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const world = `
providers:
  openai: {}
  lab: {protocols: [openai], base_url: "http://127.0.0.1:1/v1/"}
  open: {protocols: [openai], base_url: "http://127.0.0.1:2/v1"}
  router: {protocols: [openai], base_url: "http://127.0.0.1:3/v1"}
connections:
  - {id: o1, provider: openai, key: k1}
  - {id: l2, provider: lab, key: same, priority: 5, models: [m1, m2], rate_limits: {rpm: 100, min_interval: 1s}}
  - {id: l1, provider: lab, key: same, models: [m1], rate_limits: {rpm: 60, tpm: 9}}
  - {id: l3, provider: lab, key: other, priority: 5, models: [m3], account: team}
  - {id: r1, provider: router, key: k, models: [openai/gpt-5.1, vendor/x, m2]}
combos:
  - {name: smart, strategy: priority, targets: [lab/m1, {target: openai/gpt-5.1, weight: 2}]}
  - {name: spread, strategy: weighted, targets: [{combo: smart, weight: 3}, {target: lab/m2, weight: 4}, lab/m1, {combo: pinned}]}
  - {name: pinned, strategy: round-robin, targets: [{target: lab/m1, connection: l1}], options: {continuation: text, failover: {mode: max_attempts, max_attempts: 3, exclude_status: [418]}}}
  - {name: gpt-4o-mini, targets: [lab/m2]}
aliases:
  gpt-4o: openai/gpt-5.1
  best: smart
  chain: best
  "claude-*": smart
  "claude-haiku-*": lab/m2
  "any/*": "lab/*"
  "m?": pinned
`

func targets(c *gateway.Combo) string {
	var out []string
	for _, t := range c.Targets {
		s := fmt.Sprintf("%s*%d", t, t.Weight)
		if t.Connection != "" {
			s += "@" + string(t.Connection)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func TestResolve(t *testing.T) {
	s := compile(t, world)
	for _, c := range []struct {
		ask, targets, path string
		ordered, plain     bool
		guess              bool
	}{
		{ask: "smart", targets: "lab/m1*1 openai/gpt-5.1*2", path: "combo smart", ordered: true},
		{ask: "spread", targets: "lab/m1*3 openai/gpt-5.1*6 lab/m2*4 lab/m1*1@l1", path: "combo spread"},
		{ask: "gpt-4o-mini", targets: "lab/m2*1", path: "combo gpt-4o-mini", ordered: true},
		{ask: "gpt-4o", targets: "openai/gpt-5.1*1", path: "alias gpt-4o -> openai/gpt-5.1, provider/model", ordered: true, plain: true},
		{ask: "chain", targets: "lab/m1*1 openai/gpt-5.1*2", path: "alias chain -> best, alias best -> smart, combo smart", ordered: true},
		{ask: "claude-opus", targets: "lab/m1*1 openai/gpt-5.1*2", path: "alias claude-* -> smart, combo smart", ordered: true},
		{ask: "claude-haiku-4", targets: "lab/m2*1", path: "alias claude-haiku-* -> lab/m2, provider/model", ordered: true, plain: true},
		{ask: "any/deep/model", targets: "lab/deep/model*1", path: "alias any/* -> lab/deep/model, provider/model", ordered: true, plain: true},
		{ask: "m1", targets: "lab/m1*1@l1", path: "alias m? -> pinned, combo pinned"},
		{ask: "lab/m1", targets: "lab/m1*1", path: "provider/model", ordered: true, plain: true},
		{ask: "openai/never-heard-of", targets: "openai/never-heard-of*1", path: "provider/model", ordered: true, plain: true},
		{ask: "router/openai/gpt-5.1", targets: "router/openai/gpt-5.1*1", path: "provider/model", ordered: true, plain: true},
		{ask: "openai/gpt-5.1", targets: "openai/gpt-5.1*1", path: "provider/model", ordered: true, plain: true},
		{ask: "vendor/x", targets: "router/vendor/x*1", path: "served by name", ordered: true, plain: true},
		{ask: "gpt-5.2", targets: "openai/gpt-5.2*1", path: "served by name", ordered: true, plain: true},
		{ask: "auto", targets: "openai/gpt-5.5*1 lab/m1*1 router/openai/gpt-5.1*1 router/vendor/x*1 router/m2*1 lab/m2*1 lab/m3*1", path: "auto"},
		{ask: "auto/fast", targets: "openai/gpt-5.4-mini*1 lab/m1*1 router/openai/gpt-5.1*1 router/vendor/x*1 router/m2*1 lab/m2*1 lab/m3*1", path: "auto"},
		{ask: "auto/coding:free", targets: "openai/gpt-5.3-codex*1 lab/m1*1 router/openai/gpt-5.1*1 router/vendor/x*1 router/m2*1 lab/m2*1 lab/m3*1", path: "auto"},
	} {
		t.Run(c.ask, func(t *testing.T) {
			m, ok := s.Resolve(c.ask)
			if !ok {
				t.Fatal("not found")
			}
			if got := targets(m.Combo); got != c.targets {
				t.Errorf("targets %s, want %s", got, c.targets)
			}
			if got := strings.Join(m.Path, ", "); got != c.path {
				t.Errorf("path %q, want %q", got, c.path)
			}
			if m.Ordered != c.ordered || m.Plain != c.plain || m.Guess != c.guess {
				t.Errorf("ordered %v plain %v guess %v", m.Ordered, m.Plain, m.Guess)
			}
		})
	}
	for _, ask := range []string{"", "nope", "nope/m", "lab/", "/", "auto/offline", "openai"} {
		if m, ok := s.Resolve(ask); ok {
			t.Errorf("%q = %v", ask, m.Combo)
		}
	}
}

func TestBareModelOfSeveralProviders(t *testing.T) {
	s := compile(t, `
providers: {a: {protocols: [openai], base_url: "http://127.0.0.1:1"}, b: {protocols: [openai], base_url: "http://127.0.0.1:2"}}
connections:
  - {id: a1, provider: a, key: k, priority: 2, models: [m]}
  - {id: b1, provider: b, key: k, priority: 1, models: [m]}
  - {id: b2, provider: b, key: k2, models: [m]}
`)
	m, ok := s.Resolve("m")
	if !ok || targets(m.Combo) != "b/m*1 a/m*1" || m.Plain || !m.Ordered {
		t.Errorf("%v %+v", targets(m.Combo), m)
	}
}

func TestModelsOfUpstreams(t *testing.T) {
	s := compile(t, `
providers: {a: {protocols: [openai], base_url: "http://127.0.0.1:1"}, b: {protocols: [openai], base_url: "http://127.0.0.1:2"}}
connections: [{id: a1, provider: a, key: k}, {id: b1, provider: b, key: k}]
`)
	m, ok := s.Resolve("m")
	if !ok || !m.Guess || targets(m.Combo) != "a/m*1 b/m*1" {
		t.Errorf("unknown lists: %+v", m)
	}
	if ids := s.Unlisted(); len(ids) != 2 {
		t.Errorf("unlisted: %v", ids)
	}
	one := s.WithUpstreamModels("b", []gateway.ModelID{"m", "a/odd", "embed-1"})
	if m, ok := one.Resolve("m"); !ok || m.Guess || targets(m.Combo) != "b/m*1" {
		t.Errorf("one list known: %v", targets(m.Combo))
	}
	if m, _ := one.Resolve("other"); !m.Guess || targets(m.Combo) != "a/other*1" {
		t.Errorf("a known list that does not name it: %v", targets(m.Combo))
	}
	both := one.WithUpstreamModels("a", []gateway.ModelID{"n"})
	if m, ok := both.Resolve("other"); ok {
		t.Errorf("every list known, none names it: %v", targets(m.Combo))
	}
	if m, _ := both.Resolve("auto"); targets(m.Combo) != "a/n*1 b/m*1" {
		t.Errorf("auto: %v", targets(m.Combo))
	}
	if m, _ := s.Resolve("m"); !m.Guess {
		t.Error("the first snapshot changed")
	}
	want := []ModelInfo{{"b/a/odd", "model", []gateway.ProviderID{"b"}}, {"embed-1", "model", []gateway.ProviderID{"b"}},
		{"m", "model", []gateway.ProviderID{"b"}}, {"n", "model", []gateway.ProviderID{"a"}}}
	if diff := cmp.Diff(want, both.Models()); diff != "" {
		t.Error(diff)
	}
}

func TestModels(t *testing.T) {
	var combos, aliases, models []string
	for _, m := range compile(t, world).Models() {
		switch m.Kind {
		case "combo":
			combos = append(combos, m.ID)
		case "alias":
			aliases = append(aliases, m.ID)
		default:
			models = append(models, m.ID)
		}
		if len(m.Providers) == 0 {
			t.Errorf("%s: nobody", m.ID)
		}
	}
	if diff := cmp.Diff([]string{"gpt-4o-mini", "pinned", "smart", "spread"}, combos); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"best", "chain", "gpt-4o"}, aliases); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"m1", "m2", "m3", "vendor/x", "router/openai/gpt-5.1", "gpt-5.1"} {
		if !slices.Contains(models, want) {
			t.Errorf("%s is missing in %v", want, models)
		}
	}
}

// Whatever /v1/models lists can be asked for.
func TestEveryListedModelResolves(t *testing.T) {
	s := compile(t, world)
	for _, m := range s.Models() {
		got, ok := s.Resolve(m.ID)
		if !ok || got.Guess {
			t.Errorf("%s: %v", m.ID, got)
		}
	}
}

func TestConnections(t *testing.T) {
	s := compile(t, world)
	ids := func(list []*gateway.Connection) string {
		var out []string
		for _, c := range list {
			out = append(out, string(c.ID))
		}
		return strings.Join(out, " ")
	}
	if got := ids(s.Connections("lab")); got != "l1 l2 l3" {
		t.Errorf("by priority: %s", got)
	}
	for _, c := range []struct {
		t    gateway.Target
		want string
	}{
		{gateway.Target{Provider: "lab", Model: "m1"}, "l1 l2"},
		{gateway.Target{Provider: "lab", Model: "m3"}, "l3"},
		{gateway.Target{Provider: "lab", Model: "unlisted"}, "l1 l2 l3"},
		{gateway.Target{Provider: "lab", Model: "m1", Connection: "l2"}, "l2"},
		{gateway.Target{Provider: "lab", Model: "m1", Connection: "o1"}, ""},
		{gateway.Target{Provider: "openai", Model: "x"}, "o1"},
		{gateway.Target{Provider: "nobody", Model: "x"}, ""},
	} {
		if got := ids(s.Serving(c.t)); got != c.want {
			t.Errorf("%v: %q, want %q", c.t, got, c.want)
		}
	}
	l1, _ := s.Connection("l1")
	l2, _ := s.Connection("l2")
	l3, _ := s.Connection("l3")
	o1, _ := s.Connection("o1")
	if l1.Account != l2.Account || l1.Account == l3.Account || l3.Account != "team" || l1.Account == o1.Account {
		t.Errorf("accounts %s %s %s %s", l1.Account, l2.Account, l3.Account, o1.Account)
	}
	if want := (gateway.RateLimits{RPM: 60, TPM: 9, MinInterval: time.Second}); l1.RateLimits != want || l2.RateLimits != want {
		t.Errorf("the account's limits: %+v %+v", l1.RateLimits, l2.RateLimits)
	}
	if l1.Provider.BaseURL != "http://127.0.0.1:1/v1" || l1.Timeouts.Idle != 30*time.Second || s.Settings("l1") == nil {
		t.Errorf("%+v", l1)
	}
	if strings.Contains(l1.Identity, "same") || !strings.HasPrefix(l1.Identity, "l1#") || l1.Identity == l2.Identity {
		t.Errorf("identity %s", l1.Identity)
	}
}

// A re-pointed connection or a new key starts fresh; everything else keeps what was learned.
func TestIdentity(t *testing.T) {
	of := func(url, key, rest string) string {
		s := compile(t, fmt.Sprintf("providers: {p: {protocols: [openai], base_url: %q}}\nconnections: [{id: c, provider: p, key: %q%s}]\n", url, key, rest))
		c, _ := s.Connection("c")
		return c.Identity
	}
	first := of("http://127.0.0.1:1", "key-one", "")
	if of("http://127.0.0.1:1/", "key-one", ", weight: 3, resilience: {breaker: {open_base: 9s}}") != first {
		t.Error("settings change the identity")
	}
	if of("http://127.0.0.1:2", "key-one", "") == first || of("http://127.0.0.1:1", "key-two", "") == first {
		t.Error("another address or key keeps the identity")
	}
}

// P113: a reload swaps atomically; requests in flight finish on what they began with; a bad one changes nothing.
func TestP113ReloadIsOneSwap(t *testing.T) {
	live := NewLive(compile(t, world))
	inFlight := live.Load()
	next := compile(t, strings.Replace(world, "name: smart, strategy: priority", "name: smart, strategy: p2c", 1))
	if inFlight.Version == next.Version {
		t.Error("the version does not tell them apart")
	}
	if old := live.Swap(next); old != inFlight {
		t.Error("swap lost the old one")
	}
	if c, _ := inFlight.Combo("smart"); c.Strategy != "priority" {
		t.Error("the snapshot in flight changed")
	}
	if c, _ := live.Load().Combo("smart"); c.Strategy != "p2c" {
		t.Error("the new one is not in force")
	}
	if _, err := Compile(nil); err == nil || live.Load() != next {
		t.Error("a failed compile changes something")
	}
}

func TestLiveUpdateLosesNothing(t *testing.T) {
	live := NewLive(compile(t, `
providers: {a: {protocols: [openai], base_url: "http://127.0.0.1:1"}, b: {protocols: [openai], base_url: "http://127.0.0.1:2"}}
connections: [{id: a1, provider: a, key: k}, {id: b1, provider: b, key: k}]
`))
	var wg sync.WaitGroup
	for _, p := range []gateway.ProviderID{"a", "b"} {
		wg.Go(func() {
			live.Update(func(s *Snapshot) *Snapshot {
				return s.WithUpstreamModels(p, []gateway.ModelID{gateway.ModelID(p) + "-model"})
			})
		})
		wg.Go(func() { live.Load().Resolve("auto") })
	}
	wg.Wait()
	for _, m := range []string{"a-model", "b-model"} {
		if got, ok := live.Load().Resolve(m); !ok || got.Guess {
			t.Errorf("%s is lost", m)
		}
	}
}

func TestModelList(t *testing.T) {
	var l ModelList
	s := compile(t, `
providers: {a: {protocols: [openai], base_url: "http://127.0.0.1:1"}}
connections: [{id: a1, provider: a, key: k}]
`)
	p, _ := s.Provider("a")
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if !l.Claim(p, now) || l.Claim(p, now) || l.Claim(p, now.Add(59*time.Second)) {
		t.Error("one fetch at a time")
	}
	if !l.Claim(p, now.Add(time.Minute)) {
		t.Error("a fetch that never ended blocks for ever")
	}
	l.Record(p, []gateway.ModelID{"x"}, true, now)
	if l.Claim(p, now.Add(24*time.Hour-1)) || !l.Claim(p, now.Add(24*time.Hour)) {
		t.Error("kept 24 h")
	}
	l.Record(p, nil, false, now)
	if models, busy := l.Known(p); len(models) != 1 || busy {
		t.Error("a failed fetch loses the old list")
	}
	if l.Claim(p, now.Add(5*time.Minute-1)) || !l.Claim(p, now.Add(5*time.Minute)) {
		t.Error("a failure is tried again after 5 min")
	}
	if m, ok := l.Apply(s).Resolve("x"); !ok || m.Guess {
		t.Error("a reloaded snapshot does not know the list")
	}
	moved := *p
	moved.BaseURL = "http://127.0.0.1:9"
	if models, _ := l.Known(&moved); models != nil {
		t.Error("a re-pointed provider keeps the list of another server")
	}
}

func TestKeys(t *testing.T) {
	s := compile(t, "keys: [{name: dev, hash: 'sha256:"+strings.Repeat("ab", 32)+"', scopes: [inference, diagnostics], allowed_models: [m], rpm: 7}]")
	var sum [32]byte
	for i := range sum {
		sum[i] = 0xab
	}
	k, ok := s.Key(sum)
	if !ok || k.Name != "dev" || k.RPM != 7 || len(k.Scopes) != 2 || s.Keyless() {
		t.Errorf("%+v", k)
	}
	sum[31]++
	if _, ok := s.Key(sum); ok {
		t.Error("another hash is known")
	}
}

// Resolve never panics, and what it finds has targets of configured providers.
func TestResolveAnything(t *testing.T) {
	s := compile(t, world)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`(claude|any|lab|auto|m|openai|router)?[-/:*?]?(haiku-|m1|m2|fast|openai/gpt-5.1)?`)).Draw(t, "model")
		m, ok := s.Resolve(name)
		if !ok {
			return
		}
		if len(m.Combo.Targets) == 0 || len(m.Path) == 0 {
			t.Fatalf("%q: %+v", name, m)
		}
		for _, target := range m.Combo.Targets {
			if _, known := s.Provider(target.Provider); !known || target.Model == "" {
				t.Fatalf("%q: target %v", name, target)
			}
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	s := compile(b, world)
	for _, name := range []string{"smart", "lab/m1", "claude-opus", "gpt-5.2"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Resolve(name)
			}
		})
	}
}

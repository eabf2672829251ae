package view

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"spillway/internal/gateway"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var t0 = time.Date(2026, 3, 4, 10, 20, 30, 0, time.UTC)

func ms(n int) time.Time { return t0.Add(time.Duration(n) * time.Millisecond) }

// journeys are the stories that the golden files tell.
func journeys() map[string]*gateway.Journey {
	gpt, glm := gateway.Target{Provider: "openai", Model: "gpt-5.1"}, gateway.Target{Provider: "glm", Model: "glm-5"}
	plain := &gateway.Journey{ID: "req_plain", At: t0, Protocol: gateway.OpenAI, Model: "openai/gpt-5.1", PoolSize: 1,
		Strategy: "priority", Served: gpt, Connection: "openai-1", Status: 200, Committed: ms(310), EndedAt: ms(1250), Overhead: 85,
		Usage: gateway.Usage{Input: 1200, CachedInput: 1024, Output: 250}, Session: "3f2a9c01", Bound: "openai-1",
		Attempts: []gateway.Attempt{{N: 1, Target: gpt, Connection: "openai-1", Why: gateway.SessionBound, BeganAt: t0.Add(90 * time.Microsecond),
			HeadersAt: ms(300), ContentAt: ms(310), EndedAt: ms(1249), Bytes: 5300, Kind: gateway.Success, Reason: gateway.Answered,
			Status: 200, Before: "closed", After: "closed"}}}
	over := &gateway.Journey{ID: "req_failover", At: t0, ClientKey: "dev", Protocol: gateway.Anthropic, Model: "smart", Combo: "smart",
		Strategy: "priority", Path: []string{"claude-*", "smart"}, Stream: true, Tokens: 20500, PoolSize: 22, Served: glm, Connection: "glm-2",
		Status: 200, Committed: ms(4200), EndedAt: ms(64200), Overhead: 1500, Usage: gateway.Usage{Input: 20480, Output: 900, Reasoning: 100, Estimated: true},
		Session: "77aa00ff", Bound: "openai-1", Moved: gateway.UpstreamStatus,
		Excluded: []gateway.Exclusion{
			{Target: gpt, Connection: "openai-3", Layer: gateway.LayerBreaker, Reason: gateway.CircuitOpen, Until: ms(45000)},
			{Target: glm, Connection: "glm-1", Layer: gateway.LayerCooldown, Reason: gateway.Terminal}},
		Reasons: map[string]int{"circuit_open": 1, "terminal": 3, "paced": 12},
		Waits:   []gateway.Wait{{At: ms(700), Reason: gateway.WaitForSlot, For: 300 * time.Millisecond}},
		Attempts: []gateway.Attempt{
			{N: 1, Target: gpt, Connection: "openai-1", Why: gateway.FirstChoice, BeganAt: ms(1), HeadersAt: ms(650), EndedAt: ms(651),
				Kind: gateway.ServiceError, Scope: gateway.ScopeProvider, Reason: gateway.UpstreamStatus, Status: 503,
				Message: "overloaded\x1b[2J\nplease retry", RetryAfter: 3, Before: "closed", After: "open", Usage: gateway.Usage{}},
			{N: 2, Target: gpt, Connection: "openai-2", Why: gateway.NextCandidate, Probe: true, BeganAt: ms(1000), EndedAt: ms(3100),
				Kind: gateway.Slow, Scope: gateway.ScopeAttempt, Reason: gateway.LeftEarly, Rule: "quick-exit", Uncounted: true},
			{N: 3, Target: glm, Connection: "glm-2", Why: gateway.NextCandidate, BeganAt: ms(3100), HeadersAt: ms(4000), ContentAt: ms(4200),
				EndedAt: ms(64199), Bytes: 3 << 20, Kind: gateway.Success, Reason: gateway.Answered, Status: 200}}}
	failed := &gateway.Journey{ID: "req_failed", At: t0, Protocol: gateway.Responses, Model: "smart", Combo: "smart", Strategy: "round-robin",
		PoolSize: 1, Status: 401, Code: "upstream_error", Error: "Incorrect API key of openai-1.", EndedAt: ms(120), Overhead: 70,
		Attempts: []gateway.Attempt{{N: 1, Target: gpt, Connection: "openai-1", Why: gateway.FirstChoice, BeganAt: ms(0), HeadersAt: ms(119),
			EndedAt: ms(120), Kind: gateway.AuthError, Scope: gateway.ScopeConnection, Reason: gateway.KeyRefused, Status: 401, Message: "Incorrect API key"}}}
	none := &gateway.Journey{ID: "req_none", At: t0, Protocol: gateway.Gemini, Model: "smart", Combo: "smart", Strategy: "priority", PoolSize: 1,
		Status: 503, Code: "provider_circuit_open", Error: "All targets are out.", EndedAt: t0.Add(50 * time.Microsecond),
		Excluded: []gateway.Exclusion{{Target: gpt, Connection: "openai-1", Layer: gateway.LayerBreaker, Reason: gateway.CircuitOpen, Until: ms(12000)}},
		Reasons:  map[string]int{"circuit_open": 1}}
	gone := &gateway.Journey{ID: "req_gone", At: t0, Protocol: gateway.OpenAI, Model: "smart", Code: "interrupted",
		Error: "Spillway stopped while this request was running.", PoolSize: 2, Tokens: 10,
		Attempts: []gateway.Attempt{{N: 1, Target: gpt, Connection: "openai-1", Why: gateway.FirstChoice, BeganAt: ms(1)}}}
	broke := &gateway.Journey{ID: "req_broke", At: t0, Protocol: gateway.OpenAI, Model: "smart", Stream: true, PoolSize: 1, Strategy: "priority",
		Session: "01020304", Status: 200, Code: "upstream_stream_error", Error: "The upstream broke off.", Committed: ms(400), EndedAt: ms(900),
		Attempts: []gateway.Attempt{{N: 1, Target: gpt, Connection: "openai-1", Why: gateway.FirstChoice, BeganAt: ms(1), HeadersAt: ms(390),
			ContentAt: ms(400), EndedAt: ms(900), Bytes: 900, Kind: gateway.ServiceError, Scope: gateway.ScopeProvider, Reason: gateway.Truncated, Status: 200}}}
	running := &gateway.Journey{ID: "req_running", At: t0, Protocol: gateway.OpenAI, Model: "smart"}
	return map[string]*gateway.Journey{"plain": plain, "failover": over, "failed": failed, "none": none, "interrupted": gone, "running": running, "broke": broke}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, d)
	}
}

// TestP115Timeline: people see why a candidate was chosen or skipped, and what to do.
func TestP115Timeline(t *testing.T) {
	for name, j := range journeys() {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := Timeline(&b, j, Options{}); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", b.String())
			if strings.ContainsRune(b.String(), 0x1b) {
				t.Error("an upstream's escape sequence reaches the terminal")
			}
		})
	}
}

func TestJSON(t *testing.T) {
	for name, j := range journeys() {
		t.Run(name, func(t *testing.T) {
			b, err := json.MarshalIndent(JSON(j), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".json", string(b)+"\n")
		})
	}
}

func TestRedact(t *testing.T) {
	for name, j := range journeys() {
		before, _ := json.Marshal(j)
		r := Redact(j)
		b, err := json.Marshal(JSON(r))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := Timeline(&text, r, Options{}); err != nil {
			t.Fatal(err)
		}
		for _, conn := range []string{"openai-1", "openai-2", "openai-3", "glm-1", "glm-2"} {
			if strings.Contains(string(b), conn) || strings.Contains(text.String(), conn) {
				t.Errorf("%s: %s is still there: %s\n%s", name, conn, b, text.String())
			}
		}
		if len(r.Attempts) != len(j.Attempts) || r.Code != j.Code || len(r.Reasons) != len(j.Reasons) {
			t.Errorf("%s: too much is gone: %s", name, b)
		}
		if after, _ := json.Marshal(j); string(after) != string(before) {
			t.Errorf("%s: the journey itself was changed", name)
		}
	}
}

// TestEveryReasonAndKindHasWords: whatever is decided can be told.
func TestEveryReasonAndKindHasWords(t *testing.T) {
	for r := gateway.Reason(0); !strings.HasPrefix(r.String(), "reason("); r++ {
		if p := phrase(r); p == "" || strings.Contains(p, "_") {
			t.Errorf("reason %s is told as %q", r, p)
		}
	}
	for k := range gateway.NumKinds {
		if k != gateway.Success && advice[k] == "" {
			t.Errorf("no advice for %s", k)
		}
	}
}

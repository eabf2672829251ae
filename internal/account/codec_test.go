package account

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"spillway/internal/gateway"
	"spillway/internal/resilience"
)

var t0 = time.Date(2026, 3, 4, 10, 20, 30, 123456789, time.UTC)

// drawJourney makes any journey that fits the log's limits.
func drawJourney(t *rapid.T) *gateway.Journey {
	name := rapid.StringN(0, 12, 40)
	at := rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "none") {
			return time.Time{}
		}
		return t0.Add(time.Duration(rapid.Int64Range(-1e12, 1e15).Draw(t, "offset")))
	})
	target := rapid.Custom(func(t *rapid.T) gateway.Target {
		return gateway.Target{Provider: gateway.ProviderID(name.Draw(t, "provider")), Model: gateway.ModelID(name.Draw(t, "model")),
			Connection: gateway.ConnectionID(name.Draw(t, "pin")), Weight: rapid.IntRange(0, 9).Draw(t, "weight")}
	})
	count := rapid.IntRange(0, 1<<30)
	usage := rapid.Custom(func(t *rapid.T) gateway.Usage {
		return gateway.Usage{Input: count.Draw(t, "in"), CachedInput: count.Draw(t, "cached"), Output: count.Draw(t, "out"),
			Reasoning: count.Draw(t, "reasoning"), Estimated: rapid.Bool().Draw(t, "estimated")}
	})
	reason := rapid.Custom(func(t *rapid.T) gateway.Reason { return gateway.Reason(rapid.IntRange(0, 60).Draw(t, "reason")) })
	attempt := rapid.Custom(func(t *rapid.T) gateway.Attempt {
		return gateway.Attempt{N: rapid.IntRange(1, 10).Draw(t, "n"), Target: target.Draw(t, "target"),
			Connection: gateway.ConnectionID(name.Draw(t, "conn")), Why: reason.Draw(t, "why"), Probe: rapid.Bool().Draw(t, "probe"),
			BeganAt: at.Draw(t, "began"), HeadersAt: at.Draw(t, "headers"), ContentAt: at.Draw(t, "content"), EndedAt: at.Draw(t, "ended"),
			Bytes: int64(count.Draw(t, "bytes")), Kind: gateway.Kind(rapid.IntRange(0, int(gateway.NumKinds)-1).Draw(t, "kind")),
			Scope: gateway.Scope(rapid.IntRange(0, 6).Draw(t, "scope")), Reason: reason.Draw(t, "outcome"), Status: count.Draw(t, "status"),
			Rule: name.Draw(t, "rule"), Message: name.Draw(t, "message"), RetryAfter: float64(count.Draw(t, "retry")) / 1e3,
			Before: name.Draw(t, "before"), After: name.Draw(t, "after"), Usage: usage.Draw(t, "usage"), Uncounted: rapid.Bool().Draw(t, "uncounted")}
	})
	exclusion := rapid.Custom(func(t *rapid.T) gateway.Exclusion {
		return gateway.Exclusion{Target: target.Draw(t, "target"), Connection: gateway.ConnectionID(name.Draw(t, "conn")),
			Layer: gateway.Layer(rapid.IntRange(0, int(gateway.NumLayers)-1).Draw(t, "layer")), Reason: reason.Draw(t, "reason"), Until: at.Draw(t, "until")}
	})
	wait := rapid.Custom(func(t *rapid.T) gateway.Wait {
		return gateway.Wait{At: at.Draw(t, "at"), Reason: reason.Draw(t, "reason"), For: time.Duration(count.Draw(t, "for"))}
	})
	j := &gateway.Journey{ID: gateway.RequestID("req_" + name.Draw(t, "id")), At: t0, ClientKey: gateway.ClientKeyID(name.Draw(t, "key")),
		Protocol: gateway.Protocol(rapid.IntRange(0, 3).Draw(t, "protocol")), Model: name.Draw(t, "model"), Combo: name.Draw(t, "combo"),
		Strategy: name.Draw(t, "strategy"), Path: rapid.SliceOfN(name, 0, maxPath).Draw(t, "path"), Stream: rapid.Bool().Draw(t, "stream"),
		Tokens: count.Draw(t, "tokens"), PoolSize: count.Draw(t, "pool"), Excluded: rapid.SliceOfN(exclusion, 0, 16).Draw(t, "excluded"),
		Reasons: rapid.MapOfN(name, count, 0, 4).Draw(t, "reasons"), Waits: rapid.SliceOfN(wait, 0, 3).Draw(t, "waits"),
		Attempts: rapid.SliceOfN(attempt, 0, 4).Draw(t, "attempts"), Committed: at.Draw(t, "committed"), EndedAt: at.Draw(t, "end"),
		Status: count.Draw(t, "status"), Code: name.Draw(t, "code"), Error: name.Draw(t, "error"), Usage: usage.Draw(t, "usage"),
		Overhead: int64(count.Draw(t, "overhead")), Session: name.Draw(t, "session"), Bound: gateway.ConnectionID(name.Draw(t, "bound")),
		Moved: reason.Draw(t, "moved"), Operation: gateway.Operation(rapid.IntRange(0, int(gateway.NumOperations)-1).Draw(t, "operation"))}
	if rapid.Bool().Draw(t, "served") {
		j.Served, j.Connection = target.Draw(t, "served"), gateway.ConnectionID(name.Draw(t, "by"))
		j.Served.Provider += "p"
	}
	return j
}

func TestCodecRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawJourney(t)
		b := appendJourney(nil, want, false)
		got, err := decodeJourney(b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateApprox(0, 1e-6)); d != "" {
			t.Fatalf("-want +got:\n%s", d)
		}
		// Any beginning of it is refused or read, never a panic.
		cut := rapid.IntRange(0, len(b)).Draw(t, "cut")
		decodeJourney(b[:cut])
	})
}

// TestRecordSize: one row of at most 1 KB, and about 200 bytes for the usual one.
func TestRecordSize(t *testing.T) {
	if n := len(appendJourney(nil, benchJourney(t0), false)); n > 220 {
		t.Errorf("a request with one attempt takes %d bytes", n)
	}
	j := benchJourney(t0)
	j.Attempts = nil
	for range 100 {
		j.Exclude(gateway.Exclusion{Target: j.Served, Connection: "openai-2", Layer: gateway.LayerBreaker, Reason: gateway.CircuitOpen, Until: t0.Add(time.Hour)})
	}
	if n := len(appendJourney(nil, j, false)); n > 1024 {
		t.Errorf("without attempts the row takes %d bytes", n)
	}
	j.Error, j.Model = strings.Repeat("é", 4000), strings.Repeat("m", 4000)
	j.Attempts = []gateway.Attempt{{N: 1, Message: strings.Repeat("界", 4000)}}
	if n := len(appendJourney(nil, j, false)); n > 2300 {
		t.Errorf("long texts make it %d bytes", n)
	}
	got, err := decodeJourney(appendJourney(nil, j, false))
	if err != nil || got.Error != strings.Repeat("é", maxError/2) || got.Attempts[0].Message != strings.Repeat("界", maxMessage/3) {
		t.Errorf("texts are cut between characters: %q, %v", got.Error, err)
	}
}

// TestStoredEnumerationsOnlyGrow pins the numbers that stand in stored rows. A name may be added at the end of a list;
// if this test fails because one was put in between, move it to the end.
func TestStoredEnumerationsOnlyGrow(t *testing.T) {
	pins := map[string]uint8{
		"kind local_error": uint8(gateway.LocalError), "kind success": uint8(gateway.Success), "kind canceled": uint8(gateway.Canceled),
		"scope provider": uint8(gateway.ScopeProvider), "layer route": uint8(gateway.LayerRoute), "protocol gemini": uint8(gateway.Gemini),
		"operation translate_audio": uint8(gateway.TranslateAudio),
		"reason circuit_open":       uint8(gateway.CircuitOpen), "reason not_before": uint8(gateway.NotBefore), "reason answered": uint8(gateway.Answered),
		"reason capability_refused": uint8(gateway.CapabilityRefused), "reason first_choice": uint8(gateway.FirstChoice), "reason stop_here": uint8(gateway.StopHere),
	}
	want := map[string]uint8{"kind local_error": 0, "kind success": 1, "kind canceled": 17, "scope provider": 6, "layer route": 6,
		"protocol gemini": 3, "operation translate_audio": 12, "reason circuit_open": 1, "reason not_before": 16, "reason answered": 17, "reason capability_refused": 51,
		"reason first_choice": 52, "reason stop_here": 66}
	if d := cmp.Diff(want, pins); d != "" {
		t.Errorf("numbers moved (-stored +code):\n%s", d)
	}
}

// A row of a version before is read as it was written: the journey below without whose answer it got, without an
// operation, and without a session.
func TestRowsOfTheVersionBefore(t *testing.T) {
	j := benchJourney(t0)
	j.Operation = gateway.Embed
	now := appendJourney(nil, j, true)
	want := map[byte]gateway.Operation{3: gateway.Embed}
	for version, less := range map[byte]int{3: 2, 2: 3, 1: 6} { // a copy; the operation; two empty texts and a reason before it
		got, err := decodeJourney(append([]byte{version}, now[1:len(now)-less]...))
		if err != nil || got.ID != j.ID || got.Overhead != j.Overhead || got.Session != "" || got.Operation != want[version] || got.CopyOf != "" {
			t.Errorf("version %d: %+v, %v", version, got, err)
		}
	}
	if _, err := decodeJourney(append([]byte{codecVersion + 1}, now[1:]...)); err == nil {
		t.Error("a row of a later version was read")
	}
}

func TestRecordAndBodyRoundTrip(t *testing.T) {
	r := resilience.Record{Room: "breaker", Key: "a1\x00gpt", Value: []byte(`{"state":"open"}`), At: t0}
	got, err := decodeRecord(appendRecord(nil, r)[1:])
	if d := cmp.Diff(r, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	body, err := decodeBody(appendBody(nil, "req_1", "answer", t0, []byte("data"))[1:])
	if err != nil || body.Request != "req_1" || body.Part != "answer" || !body.At.Equal(t0) || string(body.Data) != "data" {
		t.Errorf("%+v, %v", body, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(appendJourney(nil, benchJourney(t0), false))
	f.Add(appendRecord(nil, resilience.Record{Room: "r", Key: "k", Value: []byte("v"), At: t0}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if j, err := decodeJourney(b); err == nil {
			if again, err := decodeJourney(appendJourney(nil, j, false)); err != nil || string(again.ID) != cut(string(j.ID), maxName) {
				t.Errorf("what was read cannot be read again: %v", err)
			}
		}
		d := decoder{names: names{}}
		d.row(b, nil)
		decodeRecord(b)
		decodeBody(b)
	})
}

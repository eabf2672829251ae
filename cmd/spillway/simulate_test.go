package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shape are the fields that scripts read, and no other.
var shape = []string{"attempts_by_source", "attempts_per_call", "calls", "engine", "holds", "oracle_efficiency", "oracle_success", "policy",
	"rate_limited_share", "scenario", "success", "ttfc_p50_ms", "ttfc_p95_ms", "wall_s", "wrong_success"}

func TestSimulatePrintsTheStableShape(t *testing.T) {
	code, stdout, stderr := command(t, "simulate", "--scenario", "flap", "--short", "--json")
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var one map[string]any
	if err := json.Unmarshal([]byte(stdout), &one); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(one)); !slices.Equal(got, shape) {
		t.Errorf("fields %v", got)
	}
	if one["engine"] != "simulated" || one["policy"] != "recommended" || one["scenario"] != "flap" || one["calls"] != 300.0 {
		t.Errorf("%v", one)
	}
	hold := one["holds"].([]any)[0].(map[string]any)
	if got := slices.Sorted(maps.Keys(hold)); !slices.Equal(got, []string{"limit", "ok", "value", "what"}) {
		t.Errorf("fields of a hold %v", got)
	}
	page := filepath.Join(t.TempDir(), "page.html")
	code, stdout, stderr = command(t, "simulate", "--scenario", "flap", "--calls", "20", "--policy", "recommended", "--policy", "polygateway", "--json", "--html", page)
	var several []map[string]any
	if err := json.Unmarshal([]byte(stdout), &several); err != nil || len(several) != 2 || several[1]["policy"] != "polygateway" {
		t.Errorf("exit code %d, %v: %s %s", code, err, stdout, stderr)
	}
	if b, err := os.ReadFile(page); err != nil || !strings.Contains(string(b), "<svg") {
		t.Errorf("%v: %.100s", err, b)
	}
}

func TestSimulateExitCodes(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("name: b\nsources: [{name: a, faults: [{kind: status, status: 500}]}]\nload: {calls: 3, patience: 20s}\nholds: [{what: success_rate, min: 0.5}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong := file(t, "resilience: {breaker: {consec_threshold: -1}}\n")
	for name, c := range map[string]struct {
		args []string
		code int
		say  string
	}{
		"it holds":              {[]string{"--scenario", "quota-wall", "--short"}, exitOK, "holds: "},
		"it does not hold":      {[]string{"--scenario", broken}, exitFailed, "BROKEN"},
		"nothing to play":       {nil, exitMisuse, "--scenario"},
		"two things to play":    {[]string{"--scenario", "flap", "--from-log", "."}, exitMisuse, "--from-log"},
		"no such scenario":      {[]string{"--scenario", "nonesuch"}, exitMisuse, "nonesuch"},
		"no such file":          {[]string{"--scenario", "./nonesuch.yaml"}, exitMisuse, "nonesuch"},
		"no such policy":        {[]string{"--scenario", "flap", "--policy", "nonesuch"}, exitMisuse, "round-robin"},
		"a policy out of range": {[]string{"--scenario", "flap", "--calls", "1", "--policy", wrong}, exitMisuse, "consec_threshold"},
		"no such log":           {[]string{"--from-log", "./nonesuch"}, exitMisuse, "nonesuch"},
		"a log that is none":    {[]string{"--from-log", broken}, exitMisuse, "decision logs"},
		"a log has its load":    {[]string{"--from-log", broken, "--hours", "2"}, exitMisuse, "own load"},
		"negative hours":        {[]string{"--scenario", "flap", "--hours=-1"}, exitMisuse, "negative"},
		"no such flag":          {[]string{"--scenario", "flap", "--nonesuch"}, exitMisuse, "nonesuch"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := command(t, append([]string{"simulate"}, c.args...)...)
			if code != c.code || !strings.Contains(stdout+stderr, c.say) {
				t.Errorf("exit code %d, want %d, with %q in\n%s%s", code, c.code, c.say, stdout, stderr)
			}
		})
	}
}

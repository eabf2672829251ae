package e2e

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// lanes is how many calls an SDK makes at once: enough to be quick over sources that ask for a second of patience.
const lanes = 6

// protocols are the protocols behind the APIs, as the lab names them.
var protocols = map[string]string{"chat": "openai", "compatible": "openai", "responses": "responses", "messages": "anthropic", "gemini": "gemini"}

// drive runs the whole plan through one SDK against gateways of its own, and judges.
func drive(t *testing.T, k sdk, run func(*testing.T, plan, func(seen))) {
	b := newBench(t)
	calls, err := b.calls(deadline(t), k)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := b.reset(); err != nil {
		t.Fatal(res, err)
	}
	say("%s: %d calls", t.Name(), len(calls))
	began := time.Now()
	var mu sync.Mutex
	reports := map[string][]seen{}
	n := 0
	run(t, plan{Calls: calls, Lanes: lanes, ToolResult: toolResult}, func(s seen) {
		mu.Lock()
		defer mu.Unlock()
		reports[s.Check] = append(reports[s.Check], s)
		if n++; n%50 == 0 {
			say("%s: %d of %d", t.Name(), n, len(calls))
		}
	})
	say("%s: done in %s", t.Name(), time.Since(began).Round(100*time.Millisecond))
	for _, c := range calls {
		got := reports[c.Check]
		if len(got) != 1 {
			t.Errorf("%s: %d reports, must be 1", c.Check, len(got))
			continue
		}
		if bad := judge(c, got[0], k); len(bad) > 0 {
			t.Errorf("%s: %s", c.Check, strings.Join(bad, "\n\t"))
		}
	}
	if len(reports) != len(calls) {
		t.Errorf("%d different reports of %d calls", len(reports), len(calls))
	}
	b.checkLog(t, k)
}

// checkLog asks the lab whether the calls really met all five ways of failing, in every API, streamed and not. Without it
// a gateway that never asks lab-a would look fine.
func (b *bench) checkLog(t *testing.T, k sdk) {
	t.Helper()
	met := map[string]map[string]int{}
	for _, a := range b.lab.log(t, "lab-a") {
		if a.Source != "lab-a" {
			continue
		}
		kind := a.Protocol + " " + mode(a.Stream)
		if met[kind] == nil {
			met[kind] = map[string]int{}
		}
		met[kind][a.Fault]++
	}
	want := []string{"status", "rate_limit", "reset_before_headers", "error_first", "cut"}
	for _, api := range k.apis {
		for _, stream := range []bool{false, true} {
			kind := protocols[api] + " " + mode(stream)
			for _, fault := range want {
				if met[kind][fault] == 0 {
					t.Errorf("%s never met %s", kind, fault)
				}
			}
		}
	}
	say("%s: lab-a was met as %v", t.Name(), met)
}

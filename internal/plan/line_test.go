package plan

import (
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/resilience/queue"
)

// TestLineOfAPool: settings of the line, environment aside: file < provider < connection, put together over the pool.
func TestLineOfAPool(t *testing.T) {
	const head = "providers:\n  a: {protocols: [openai], base_url: 'http://a.test/v1', class: apikey%P%}\nconnections:\n"
	const tail = "combos: [{name: smart, targets: [a/m]}]\n"
	conn := func(id, extra string) string {
		return "  - {id: " + id + ", provider: a, key: k" + id + extra + "}\n"
	}
	line := func(s string) string { return ", resilience: {pacing: {queue: {" + s + "}}}" }
	for name, c := range map[string]struct {
		provider, conns, global string
		want                    queue.Config
	}{
		"default":          {"", conn("x", "") + conn("y", ""), "", queue.Config{MaxQueueDepth: 2000}},
		"global":           {"", conn("x", "") + conn("y", ""), "max_wait: 9s, max_queue_depth: 10", queue.Config{MaxWait: 9 * time.Second, MaxQueueDepth: 20}},
		"provider":         {line("max_wait: 5s"), conn("x", ""), "max_wait: 9s", queue.Config{MaxWait: 5 * time.Second, MaxQueueDepth: 1000}},
		"connection":       {line("max_wait: 5s"), conn("x", line("max_wait: 2s, max_queue_depth: 7")) + conn("y", ""), "", queue.Config{MaxWait: 5 * time.Second, MaxQueueDepth: 1007}},
		"one without end":  {"", conn("x", line("max_wait: 2s, max_queue_depth: 0")) + conn("y", line("max_wait: 0s")), "", queue.Config{}},
		"the shortest ...": {"", conn("x", line("max_wait: 1ms")), "", queue.Config{MaxWait: time.Millisecond, MaxQueueDepth: 1000}},
		"the longest":      {"", conn("x", line("max_wait: 24h")), "", queue.Config{MaxWait: 24 * time.Hour, MaxQueueDepth: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			y := head[:len(head)-len("%P%}\nconnections:\n")] + c.provider + "}\nconnections:\n" + c.conns + tail
			if c.global != "" {
				y += "resilience: {pacing: {queue: {" + c.global + "}}}\n"
			}
			h := open(t, y)
			combo, ok := h.Snapshot.Combo("smart")
			if !ok {
				t.Fatal("no combo")
			}
			if got := h.Pool(combo, gateway.OpenAI, gateway.Generate).Queue; got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

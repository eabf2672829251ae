package lab

import (
	"testing"
	"time"
)

// every is n calls, one per gap.
func every(n int, gap time.Duration) []arrival {
	out := make([]arrival, n)
	for i := range out {
		out[i] = arrival{i, time.Duration(i) * gap}
	}
	return out
}

func TestOracle(t *testing.T) {
	for name, c := range map[string]struct {
		scenario          string
		calls             []arrival
		success, attempts int
	}{
		"one attempt per call": {`
sources: [{name: a, latency: 1s}]
load: {calls: 1}`, every(20, time.Second), 20, 20},
		"it asks whoever answers": {`
sources: [{name: a, faults: [{kind: status, for: 10s}]}, {name: b, faults: [{kind: status, after: 10s}]}]
load: {calls: 1}`, every(20, time.Second), 20, 20},
		"it knows the luck of each request": {`
sources: [{name: a, faults: [{kind: empty, prob: 0.5}]}, {name: b, faults: [{kind: empty, prob: 0.5}]}]
load: {calls: 1}`, every(200, time.Second), 200, 380},
		"luck costs an attempt where there is no other way": {`
sources: [{name: a, faults: [{kind: status, turn: 0, of: 2}]}]
load: {calls: 1}`, every(10, time.Second), 10, 20},
		"it waits for the end of an outage": {`
sources: [{name: a, faults: [{kind: status, for: 30s}]}]
load: {calls: 1, patience: 1m}`, every(5, time.Second), 5, 5},
		"but not beyond the client's patience": {`
sources: [{name: a, faults: [{kind: status, for: 30s}]}]
load: {calls: 1, patience: 10s}`, every(30, time.Second), 9, 9},
		"nor beyond the deadline": {`
sources: [{name: a, latency: 5s}]
gateway: {settings: {timeouts: {request: 4s}}}
load: {calls: 1}`, every(5, time.Second), 0, 0},
		"a bucket bounds it": {`
accounts: {x: {rpm: 60, burst: 5}}
sources: [{name: a, account: x}, {name: b, account: x}]
load: {calls: 1, patience: 10s}`, every(100, 10*time.Millisecond), 15, 15},
		"so does a gate": {`
sources: [{name: a, latency: 1s, connection: {max_concurrent: 2}}]
load: {calls: 1, patience: 4500ms}`, every(100, 0), 8, 8},
		"and the attempts": {`
sources: [{name: a, faults: [{kind: status, skip: 0, times: 3}]}]
gateway: {settings: {limits: {attempts: 3}}}
load: {calls: 1, patience: 10s}`, every(2, 0), 2, 5},
		"a connection's time-out ends what is slower": {`
sources: [{name: a, latency: 1s, connection: {timeouts: {first_content: 500ms}}}, {name: b, latency: 2s}]
load: {calls: 1}`, every(5, 10*time.Second), 5, 5},
		"repeats come from the cache": {`
sources: [{name: a}]
gateway: {settings: {cache: {enabled: true}}}
load: {calls: 1, repeats: 1}`, every(50, time.Second), 50, 1},
		"without one they do not": {`
sources: [{name: a}]
load: {calls: 1, repeats: 1}`, every(50, time.Second), 50, 50},
		"nobody answers from behind a name that cannot be resolved": {`
sources: [{name: a, faults: [{kind: dns_failure}]}]
load: {calls: 1, patience: 2s}`, every(3, time.Second), 0, 0},
		"a source that hangs is not asked": {`
sources: [{name: a, faults: [{kind: silence}]}, {name: b, latency: 3s}]
load: {calls: 1}`, every(10, time.Second), 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			s := small(t, "name: t\nseed: 4\n"+c.scenario)
			o := consult(&s, c.calls)
			if o.success != c.success || o.attempts > c.attempts || o.attempts < o.success && s.Limits().CacheTTL == 0 {
				t.Errorf("success %d with %d attempts, want %d with %d at most", o.success, o.attempts, c.success, c.attempts)
			}
			if again := consult(&s, c.calls); again.success != o.success || again.attempts != o.attempts {
				t.Errorf("then %d with %d", again.success, again.attempts)
			}
		})
	}
}

func TestOutage(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	look := func(list ...int) (out []sight) { // negative: not healthy
		for _, s := range list {
			out = append(out, sight{at(max(s, -s)), s >= 0})
		}
		return out
	}
	for name, c := range map[string]struct {
		sights []sight
		asked  []int
		want   int
	}{
		"never asked":            {look(0, 5, 9), nil, 9},
		"asked in between":       {look(0, 5, 9), []int{4}, 5},
		"not healthy meanwhile":  {look(0, -3, -7, 8, 10), nil, 2},
		"asked all along":        {look(0, 1, 2), []int{0, 1, 2}, 1},
		"never healthy":          {look(-1, -2), nil, 0},
		"back, and asked late":   {look(-1, 2, 20), []int{15}, 13},
		"asked while it is dead": {look(-1, -5, 6, 8), []int{3, 4}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []Attempt
			for _, s := range c.asked {
				asked = append(asked, Attempt{At: at(s)})
			}
			if got := outage(c.sights, asked); got != time.Duration(c.want)*time.Second {
				t.Errorf("%s, want %d s", got, c.want)
			}
		})
	}
}

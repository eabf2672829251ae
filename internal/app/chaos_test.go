package app

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
	"spillway/internal/lab/wire"
)

// misery is a mix of everything that goes wrong, each with a small chance.
func misery(r *rand.Rand) []lab.Fault {
	kinds := []lab.Fault{
		{Kind: fault.Status, Status: 500}, {Kind: fault.Status, Status: 503, RetryAfter: 3 * time.Second}, {Kind: fault.RateLimit},
		{Kind: fault.RateLimit, RetryAfter: 2 * time.Second}, {Kind: fault.ResetBeforeHeaders}, {Kind: fault.ResetAfterHeaders},
		{Kind: fault.ResetMidStream, Tokens: 3}, {Kind: fault.Silence}, {Kind: fault.SlowFirstToken}, {Kind: fault.Stall, Tokens: 2},
		{Kind: fault.Heartbeats}, {Kind: fault.Cut}, {Kind: fault.EndEarly, Tokens: 2}, {Kind: fault.ErrorFirst}, {Kind: fault.ErrorMid, Tokens: 4},
		{Kind: fault.NoDone, Delay: time.Minute}, {Kind: fault.Empty}, {Kind: fault.MetadataOnly}, {Kind: fault.HTML}, {Kind: fault.Gzip},
		{Kind: fault.CRLF}, {Kind: fault.ByteSplit}, {Kind: fault.Unauthorized}, {Kind: fault.ModelMissing}, {Kind: fault.Status, Status: 400},
		{Kind: fault.WrongContentType},
	}
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	kinds = kinds[:6]
	for i := range kinds {
		kinds[i].Prob = 0.03 + 0.1*r.Float64()
	}
	return kinds
}

// capWatch samples how many requests an upstream serves.
func (b *bubble) capWatch(stop <-chan struct{}, name string, most int) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(37 * time.Millisecond):
		}
		u := b.ups[name]
		u.mu.Lock()
		n := u.running
		u.mu.Unlock()
		if n > most {
			b.t.Errorf("%d in flight at %s, the cap is %d", n, name, most)
			return
		}
	}
}

// Whatever goes wrong and whoever leaves when: each request has one end that its client can read, no text is wrong or
// shown twice, no cap is passed, and everything is given back (the harness checks that).
func TestChaos(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bubble) { chaos(t, b, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

const chaosCap = 3

func chaos(t *testing.T, b *bubble, r *rand.Rand) {
	b.lenient = true // a client may leave before its attempt has reached the upstream
	var p, c strings.Builder
	p.WriteString("providers:\n")
	c.WriteString("connections:\n")
	names := []string{"a", "b", "c", "d"}
	for _, n := range names {
		b.SourceOf(scenario.Source{Name: n, Tokens: 6, Latency: scenario.Between(100*time.Millisecond, 2*time.Second),
			Interval: scenario.Between(0, 300*time.Millisecond), Faults: misery(r)})
		p.WriteString(provider(n))
		fmt.Fprintf(&c, "  - {id: %s, provider: %s, key: key-%s, max_concurrent: %d}\n", n, n, n, chaosCap)
	}
	strategy := []string{"priority", "health-aware", "round-robin"}[r.IntN(3)]
	b.Open(p.String() + c.String() + fmt.Sprintf("combos:\n  - {name: smart, strategy: %s, targets: [a/m, b/m, c/m, d/m]}\n", strategy))
	stop := make(chan struct{})
	var watch sync.WaitGroup
	for _, n := range names {
		// A client that leaves frees its slot a moment before the upstream has noticed.
		watch.Go(func() { b.capWatch(stop, n, chaosCap+1) })
	}
	answered := 0
	var mu sync.Mutex
	for i := range 200 {
		q := client.Request{Protocol: gateway.Protocol(r.IntN(int(gateway.NumProtocols))), Model: "smart", Stream: r.IntN(3) > 0, Prompt: fmt.Sprintf("question %d", i)}
		leaves := time.Duration(0)
		if r.IntN(5) == 0 {
			leaves = time.Duration(r.IntN(15000)) * time.Millisecond
		}
		b.running.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if leaves > 0 {
				time.AfterFunc(leaves, cancel)
			}
			res := b.AskCtx(ctx, q)
			if why := readable(res, q.Prompt); why != "" && ctx.Err() == nil {
				t.Errorf("%s, stream=%t: %s", q.Protocol, q.Stream, why)
			}
			if res.End == client.Complete {
				mu.Lock()
				answered++
				mu.Unlock()
			}
		})
		time.Sleep(time.Duration(r.IntN(600)) * time.Millisecond)
	}
	b.running.Wait()
	close(stop)
	watch.Wait()
	if answered < 120 {
		t.Errorf("only %d of 200 were answered", answered)
	}
}

// readable says what is wrong with an end that a client cannot work with.
func readable(r client.Result, prompt string) string {
	whole := wire.Text(prompt, 0, 6)
	switch {
	case r.End == client.Complete && r.Text == whole:
	case r.End == client.Failed && strings.HasPrefix(whole, r.Text):
	default:
		return describe(r)
	}
	return ""
}

// Closing the gateway lets what runs finish, refuses what comes, and cuts what lasts longer than drain_timeout.
func TestDrain(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.SourceOf(scenario.Source{Name: "a", Interval: scenario.Between(200*time.Millisecond, 200*time.Millisecond)})
		b.SourceOf(scenario.Source{Name: "slow", Interval: scenario.Between(10*time.Second, 10*time.Second)})
		b.Open(providers("a", "slow") + combo("a") + "drain_timeout: 30s\n")
		var short, long client.Result
		b.running.Go(func() { short = b.Ask(chat(true)) })
		b.running.Go(func() {
			long = b.Ask(client.Request{Protocol: gateway.OpenAI, Model: "slow/m", Stream: true})
		})
		time.Sleep(2 * time.Second)
		began := time.Now()
		b.closeApp()
		if d := time.Since(began); d < 25*time.Second || d > 32*time.Second {
			t.Errorf("the drain took %s", d)
		}
		b.running.Wait()
		b.Right(short, "")
		if long.End == client.Complete || long.End == client.Truncated {
			t.Errorf("a stream that was cut looks whole: %s", describe(long))
		}
	})
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// bench is one run.
type bench struct {
	binary   string
	rounds   int
	quick    bool
	only     []string
	failures int
	json     bool
	profile  string // of the logged gateway

	upstream *proc
	bare     *proc
	logged   *proc // Spillway as it is
	unlogged *proc // without the decision log
	rows     []row
}

// row is one figure beside its bar.
type row struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Limit string  `json:"limit"`
	OK    bool    `json:"ok"`
	Note  string  `json:"note,omitempty"`
}

func (b *bench) run(ctx context.Context) error {
	if b.quick {
		b.rounds, b.failures = 2, 4000
	}
	stop, err := b.start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for _, m := range []struct {
		name string
		do   func(context.Context) error
	}{{"calls", b.small}, {"streams", b.streaming}, {"steady", b.steady}, {"first", b.firstChunk}, {"idle", b.idle}, {"large", b.large}} {
		if len(b.only) > 0 && !slices.Contains(b.only, m.name) {
			continue
		}
		if err := m.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return b.report()
}

func (b *bench) start(ctx context.Context) (func(), error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "spillway-bench")
	if err != nil {
		return nil, err
	}
	var started []*proc
	stop := func() {
		for _, p := range slices.Backward(started) {
			p.stop()
		}
		os.RemoveAll(dir)
	}
	launch := func(into **proc, name string, args ...string) {
		if err == nil {
			if *into, err = startProc(ctx, name, args...); err == nil {
				started = append(started, *into)
			}
		}
	}
	launch(&b.upstream, "upstream", self, "-role", "upstream")
	if err == nil {
		launch(&b.bare, "bare", self, "-role", "bare", "-target", b.upstream.addr)
		launch(&b.logged, "spillway", b.gateway(dir, "on", b.upstream.addr)...)
		launch(&b.unlogged, "spillway, no log", b.gateway(dir, "off", b.upstream.addr)...)
	}
	if err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// gateway writes a configuration and returns the command that serves it.
func (b *bench) gateway(dir, decisions, upstream string) []string {
	file := filepath.Join(dir, decisions+".yaml")
	yaml := fmt.Sprintf("providers:\n  bench:\n    protocols: [openai]\n    base_url: http://%s/v1\n"+
		"connections:\n  - {id: bench, provider: bench, key: sk-bench}\n"+
		"combos:\n  - {name: call, targets: [bench/call]}\nlog: {decisions: %s}\nlisten: 127.0.0.1:0\n", upstream, decisions)
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		panic(err) // a directory that was just made
	}
	args := []string{b.binary, "serve", "--config", file, "--data", filepath.Join(dir, decisions), "--log-level", "warn"}
	if b.profile != "" && decisions == "on" {
		args = append(args, "--profile", b.profile)
	}
	return args
}

// sample is one round of one process.
type sample struct {
	cpu float64 // microseconds per unit
	per float64 // units per second
}

// compare runs load against each process in turn, round by round, and returns the medians of the ratios to the bare
// proxy of the same round.
func (b *bench) compare(load func(addr string) (units int64, wall time.Duration, err error), procs ...*proc) ([]sample, []sample, error) {
	all := append([]*proc{b.bare}, procs...)
	ratios := make([][]sample, len(procs))
	var base []sample
	for round := range b.rounds + 1 {
		var got []sample
		for _, p := range all {
			s, err := measure(p, load)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", p.name, err)
			}
			got = append(got, s)
		}
		if round == 0 {
			continue // warm-up
		}
		base = append(base, got[0])
		for i := range procs {
			ratios[i] = append(ratios[i], sample{got[i+1].cpu / got[0].cpu, got[i+1].per / got[0].per})
		}
	}
	out := make([]sample, len(procs))
	for i := range out {
		out[i] = median(ratios[i])
	}
	return out, []sample{median(base)}, nil
}

func measure(p *proc, load func(addr string) (int64, time.Duration, error)) (sample, error) {
	before, err := p.cpu()
	if err != nil {
		return sample{}, err
	}
	units, wall, err := load(p.addr)
	if err != nil {
		return sample{}, err
	}
	after, err := p.cpu()
	if err != nil {
		return sample{}, err
	}
	return sample{float64((after - before).Nanoseconds()) / 1000 / float64(units), float64(units) / wall.Seconds()}, nil
}

func median(s []sample) sample {
	cpu, per := make([]float64, 0, len(s)), make([]float64, 0, len(s))
	for _, x := range s {
		cpu, per = append(cpu, x.cpu), append(per, x.per)
	}
	slices.Sort(cpu)
	slices.Sort(per)
	return sample{cpu[len(cpu)/2], per[len(per)/2]}
}

func (b *bench) add(what string, value float64, limit string, ok bool, note string) {
	b.rows = append(b.rows, row{what, value, limit, ok, note})
	if !b.json {
		mark := "ok  "
		if !ok {
			mark = "MISS"
		}
		fmt.Printf("%s  %-58s %10.3f   bar %-10s %s\n", mark, what, value, limit, note)
	}
}

func (b *bench) atMost(what string, value, limit float64, note string) {
	b.add(what, value, fmt.Sprintf("<= %g", limit), value <= limit, note)
}

func (b *bench) atLeast(what string, value, limit float64, note string) {
	b.add(what, value, fmt.Sprintf(">= %g", limit), value >= limit, note)
}

func (b *bench) count(n int) int {
	if b.quick {
		return max(n/10, 1)
	}
	return n
}

func (b *bench) callLoad(size, workers, n int) func(string) (int64, time.Duration, error) {
	return func(addr string) (int64, time.Duration, error) {
		r := calls(addr, request(addr, "call", size, false), workers, n)
		if r.failed > 0 {
			return 0, 0, fmt.Errorf("%d of %d calls failed: %v", r.failed, n, r.example.Load())
		}
		return r.calls, r.wall, nil
	}
}

func (b *bench) small(context.Context) error {
	got, base, err := b.compare(b.callLoad(1500, 64, b.count(30000)), b.logged, b.unlogged)
	if err != nil {
		return err
	}
	note := fmt.Sprintf("bare: %.1f us, %.0f/s", base[0].cpu, base[0].per)
	b.atMost("1.5 KB call, CPU with the log, x bare", got[0].cpu, 0.95, note)
	b.atLeast("1.5 KB call, calls per second with the log, x bare", got[0].per, 1.05, "")
	b.atMost("1.5 KB call, CPU without the log, x bare", got[1].cpu, 0.80, "")
	return nil
}

func (b *bench) large(context.Context) error {
	for _, l := range []struct {
		name  string
		size  int
		calls int
		limit float64
	}{{"100 KB", 100 << 10, 5000, 1.2}, {"1 MB", 1 << 20, 800, 1.6}} {
		got, base, err := b.compare(b.callLoad(l.size, 16, b.count(l.calls)), b.logged)
		if err != nil {
			return err
		}
		b.atMost(l.name+" call, CPU with the log, x bare", got[0].cpu, l.limit, fmt.Sprintf("bare: %.0f us", base[0].cpu))
	}
	return nil
}

func (b *bench) streamLoad(model string, parallel, n int) func(string) (int64, time.Duration, error) {
	return func(addr string) (int64, time.Duration, error) {
		r := streams(addr, request(addr, model, 1500, true), parallel, n)
		if r.failed > 0 && addr != b.bare.addr { // the bare proxy truncates some
			return 0, 0, fmt.Errorf("%d of %d streams failed: %v", r.failed, n, r.example.Load())
		}
		return max(r.chunks, 1), r.wall, nil
	}
}

// streaming: chunks as fast as they come, and the run that counts failures.
func (b *bench) streaming(context.Context) error {
	if err := b.chunks(0, 4000, 1.05); err != nil {
		return err
	}
	r := streams(b.logged.addr, request(b.logged.addr, "bench/stream-50-0", 1500, true), 200, b.failures)
	b.atMost(fmt.Sprintf("failed streams of %d", b.failures), float64(r.failed), 0, fmt.Sprint(r.example.Load()))
	rss, err := b.logged.rss()
	if err != nil {
		return err
	}
	b.atMost("memory afterwards, MB", float64(rss)/1e6, 80, b.goMemory())
	return nil
}

// goMemory is what the Go runtime says of its memory, to explain the figure of the kernel.
func (b *bench) goMemory() string {
	res, err := http.Get("http://" + b.logged.addr + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	var out []string
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		for _, name := range []string{"heap_inuse", "heap_idle", "heap_released", "stack_inuse", "next_gc"} {
			if value, ok := strings.CutPrefix(lines.Text(), "go_memstats_"+name+"_bytes "); ok {
				f, _ := strconv.ParseFloat(value, 64) // shown as it is
				out = append(out, fmt.Sprintf("%s %.1f", name, f/1e6))
			}
		}
	}
	return strings.Join(out, ", ")
}

// steady: chunks at the pace of a model.
func (b *bench) steady(context.Context) error { return b.chunks(5, 1000, 1.1) }

func (b *bench) chunks(ms, n int, limit float64) error {
	got, base, err := b.compare(b.streamLoad(fmt.Sprintf("bench/stream-50-%d", ms), 200, b.count(n)), b.logged)
	if err != nil {
		return err
	}
	b.atMost(fmt.Sprintf("200 streams x 50 chunks, %d ms apart, CPU per chunk, x bare", ms), got[0].cpu, limit,
		fmt.Sprintf("bare: %.2f us", base[0].cpu))
	return nil
}

func (b *bench) firstChunk(context.Context) error {
	n := b.count(2000)
	var diffs []float64
	for range b.rounds {
		direct := streams(b.upstream.addr, request(b.upstream.addr, "stream-10-1", 1500, true), 4, n/b.rounds)
		through := streams(b.logged.addr, request(b.logged.addr, "bench/stream-10-1", 1500, true), 4, n/b.rounds)
		if through.failed > 0 || len(direct.firsts) == 0 || len(through.firsts) == 0 {
			return fmt.Errorf("streams failed: %v", through.example.Load())
		}
		diffs = append(diffs, float64(through.firsts[len(through.firsts)/2]-direct.firsts[len(direct.firsts)/2])/1e6)
	}
	slices.Sort(diffs)
	b.atMost("first chunk later than direct, median, ms", diffs[len(diffs)/2], 0.6, "")
	return nil
}

func (b *bench) idle(context.Context) error {
	n := b.count(2000)
	before, err := b.logged.rss()
	if err != nil {
		return err
	}
	req := request(b.logged.addr, "bench/idle", 1500, true)
	open := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	for range n {
		c, err := dial(b.logged.addr)
		if err != nil {
			return err
		}
		open = append(open, c.Conn)
		if _, err := c.Write(req); err != nil {
			return err
		}
		if _, _, err := c.head(); err != nil {
			return err
		}
	}
	after, err := b.logged.rss()
	if err != nil {
		return err
	}
	b.atMost("memory per open idle stream, KiB", float64(after-before)/1024/float64(n), 96, fmt.Sprintf("%d streams", n))
	return nil
}

func (b *bench) report() error {
	if b.json {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(b.rows)
	}
	missed := 0
	for _, r := range b.rows {
		if !r.OK {
			missed++
		}
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\n%d of %d figures hold their bar\n", len(b.rows)-missed, len(b.rows))
	return t.Flush()
}

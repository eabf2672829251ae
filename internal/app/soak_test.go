//go:build soak

package app

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"spillway/internal/config"
)

// TestSoakStreams runs 100 000 streams of which one in ten is left by its client, and then looks whether anything stayed
// behind: goroutines, connections, bytes, slots, heap (P114). SOAK_STREAMS sets another number.
func TestSoakStreams(t *testing.T) {
	total := 100_000
	if n, err := strconv.Atoi(os.Getenv("SOAK_STREAMS")); err == nil {
		total = n
	}
	upstream := httptest.NewServer(http.HandlerFunc(soakStream))
	defer upstream.Close()
	g, err := Open(t.Context(), Options{Source: config.Source{
		Path: "soak.yaml", Env: func(string) (string, bool) { return "", false }, Flags: config.Flags{Listen: "127.0.0.1:0", Data: t.TempDir()},
		Bytes: []byte("providers:\n  a: {protocols: [openai], base_url: " + upstream.URL + "/v1}\nconnections:\n  - {id: a1, provider: a, key: k}\n"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + g.Addr().String() + "/v1/chat/completions"
	soakRun(t, url, total/3) // everything that is made once is there now
	before := soakLook(t, g)
	soakRun(t, url, total)
	after := soakLook(t, g)
	t.Logf("before %+v", before)
	t.Logf("after  %+v", after)
	if after.goroutines > before.goroutines+4 {
		t.Errorf("goroutines: %d before, %d after", before.goroutines, after.goroutines)
	}
	if after.conns > before.conns+4 {
		t.Errorf("open sockets: %d before, %d after", before.conns, after.conns)
	}
	if grown := float64(after.heap) / float64(before.heap); grown > 1.05 {
		t.Errorf("HeapInuse after two collections: %d before, %d after (%.3f)", before.heap, after.heap, grown)
	}
	if g.InFlight() != 0 || g.Buffered() != 0 || g.rooms.queues.Len() != 0 {
		t.Errorf("in flight %d, buffered %d, waiting %d", g.InFlight(), g.Buffered(), g.rooms.queues.Len())
	}
	if err := g.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

type soakState struct {
	goroutines, conns int
	heap              uint64
}

// soakLook waits for what ends by itself (aborted requests, idle connections of the client) and counts.
func soakLook(t *testing.T, g *App) soakState {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for g.InFlight() > 0 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	g.sender.Close()
	last, since := runtime.NumGoroutine(), time.Now()
	for time.Since(since) < time.Second && time.Now().Before(deadline) { // until the number has settled
		runtime.Gosched()
		if n := runtime.NumGoroutine(); n != last {
			last, since = n, time.Now()
		}
	}
	if err := g.ledger.Flush(t.Context()); err != nil { // what still waits to be moved is no leak
		t.Fatal(err)
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return soakState{last, len(files), m.HeapInuse}
}

func soakStream(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	f := w.(http.Flusher)
	for i := range 5 {
		io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"t`+strconv.Itoa(i)+`"},"finish_reason":null}]}`+"\n\n")
		f.Flush()
	}
	io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}

func soakRun(t *testing.T, url string, n int) {
	t.Helper()
	tr := &http.Transport{MaxIdleConnsPerHost: 64, DialContext: (&net.Dialer{}).DialContext}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr}
	var left, bad atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for {
				i := left.Add(-1)
				if i < 0 {
					return
				}
				if !soakOne(client, url, i%10 == 0) {
					bad.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if bad.Load() > 0 {
		t.Errorf("%d of %d streams were not whole", bad.Load(), n)
	}
}

// soakOne reads one stream, or leaves it after the first line.
func soakOne(client *http.Client, url string, abort bool) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"model":"a/m","stream":true,"messages":[]}`))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	done := false
	for lines.Scan() {
		if abort {
			return true
		}
		done = done || lines.Text() == "data: [DONE]"
	}
	return done
}

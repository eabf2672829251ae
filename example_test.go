package spillway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"spillway"
)

// nothing is an environment without any variable, so that examples answer from the lab wherever they run.
func nothing(string) (string, bool) { return "", false }

func Example() {
	g, err := spillway.New(spillway.Config{YAML: []byte("{}"), Env: nothing})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	client := &http.Client{Transport: g.RoundTripper()} // give this client to any SDK
	res, err := client.Post("http://spillway/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"auto","messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	fmt.Println(res.StatusCode, res.Header.Get("x-spillway-source"))
	// Output: 200 lab
}

func ExampleGateway_Handler() {
	g, err := spillway.New(spillway.Config{YAML: []byte("{}"), Env: nothing})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	server := httptest.NewServer(g.Handler()) // or mount it in a mux of your own
	defer server.Close()
	res, err := http.Get(server.URL + "/v1/models")
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	fmt.Println(strings.Contains(string(body), `"lab-model"`))
	// Output: true
}

func ExampleGateway_RoundTripper_stream() {
	g, err := spillway.New(spillway.Config{YAML: []byte("{}"), Env: nothing})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	client := &http.Client{Transport: g.RoundTripper()}
	res, err := client.Post("http://spillway/v1/chat/completions", "application/json",
		strings.NewReader(`{"model":"auto","stream":true,"messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	events := 0
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			events++
		}
	}
	fmt.Println(events > 10)
	// Output: true
}

// TestClosingTheBodyEndsTheRequest: a caller that has read enough must not leave anything running.
func TestClosingTheBodyEndsTheRequest(t *testing.T) {
	g, err := spillway.New(spillway.Config{YAML: []byte("{}"), Env: nothing})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: g.RoundTripper()}
	for range 5 {
		res, err := client.Post("http://spillway/v1/chat/completions", "application/json",
			strings.NewReader(`{"model":"auto","stream":true,"messages":[{"role":"user","content":"hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := res.Body.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	began := time.Now()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Fatalf("Close took %v: something was still running", d)
	}
}

func TestAnEndedContextEndsTheRequest(t *testing.T) {
	g, err := spillway.New(spillway.Config{YAML: []byte("{}"), Env: nothing})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://spillway/v1/chat/completions",
		strings.NewReader(`{"model":"auto","messages":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	if res, err := g.RoundTripper().RoundTrip(req); err == nil {
		res.Body.Close()
		t.Fatalf("a request whose context has ended got %s", res.Status)
	}
}

func TestABadConfigurationIsRefusedWithItsPlace(t *testing.T) {
	_, err := spillway.New(spillway.Config{File: "mine.yaml", YAML: []byte("lisen: 127.0.0.1:1\n"), Env: nothing})
	if err == nil || !strings.Contains(err.Error(), "mine.yaml:1:") || !strings.Contains(err.Error(), "listen") {
		t.Fatalf("got %v", err)
	}
}

package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab/client"
	"spillway/internal/lab/fault"
	"spillway/internal/lab/scenario"
)

// quickCases are the shipped cases with their times made a hundred times shorter. The client's patience is not: a busy
// machine must not turn a verdict into a hang.
func quickCases(t *testing.T) []scenario.Case {
	t.Helper()
	cases, err := scenario.Failover()
	if err != nil {
		t.Fatal(err)
	}
	for i := range cases {
		c := &cases[i]
		c.Every /= 100
		for j := range c.Primary.Faults {
			f := &c.Primary.Faults[j]
			f.Delay /= 100
			f.For /= 100
		}
		c.Expect.BackWithin = 30 * time.Second // never back is still seen
		switch c.ID {
		case "S06":
			c.Patience, c.Primary.Faults[0].Delay = 5*time.Second, 0
		case "S07":
			c.Expect.Within, c.Primary.Faults[0].Delay = 5*time.Second, 6*time.Second
		case "S09":
			c.Primary.Faults[0].Delay = 6 * time.Second
		case "S15": // a slow start of all cases at once must not eat the outage
			c.Every, c.Primary.Faults[0].For = 200*time.Millisecond, 3*time.Second
		case "S11":
			c.Expect.Tail, c.Primary.Faults[0].Delay = time.Second, 2*time.Second
		}
	}
	return cases
}

// naive starts a reverse proxy that knows the primary alone.
func naive(_ context.Context, primary, _ string) (string, func(), error) {
	u, err := url.Parse(primary)
	if err != nil {
		return "", nil, err
	}
	p := httputil.NewSingleHostReverseProxy(u)
	p.FlushInterval, p.ErrorLog = -1, quiet
	p.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The whole body first: once the server has begun to answer, it closes the body, and a transport that looks just
		// then whether more of it comes takes that for a failed request and cuts the connection under a good answer.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.ServeHTTP(w, r)
	}))
	srv.Config.ErrorLog = quiet
	srv.Start()
	return srv.URL, srv.Close, nil
}

func verdicts(r Report) map[string]string {
	out := map[string]string{}
	for _, c := range r.Scenarios {
		out[c.ID] = c.Verdict.String()
	}
	return out
}

func TestSuiteJudgesANaiveProxy(t *testing.T) {
	want := map[gateway.Protocol]map[string]string{}
	for p := range gateway.NumProtocols {
		want[p] = map[string]string{"S01": "safe", "S02": "safe", "S03": "safe", "S04": "safe", "S05": "safe", "S06": "fail",
			"S07": "partial", "S08": "fail", "S09": "fail", "S10": "fail", "S11": "partial", "S12": "pass", "S13": "pass",
			"S14": "fail", "S15": "safe", "S16": "safe"}
	}
	want[gateway.Anthropic]["S11"] = "fail" // without message_stop the SDKs have no message
	for p := range gateway.NumProtocols {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			r, err := RunSuite(t.Context(), Options{Start: naive, Protocols: []gateway.Protocol{p}, cases: quickCases(t)})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range r.Scenarios {
				if got := c.Verdict.String(); got != want[p][c.ID] {
					t.Errorf("%s: %s, want %s (%s)", c.ID, got, want[p][c.ID], c.Note)
				}
			}
			if r.OK() || r.Pass+r.Partial+r.Safe+r.Fail != 16 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// buffering starts a gateway that collects a whole answer from the primary, else from the fallback, and takes nothing
// for whole that has no [DONE] or finish reason.
func buffering(_ context.Context, primary, fallback string) (string, func(), error) {
	h := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, u := range []string{primary, fallback} {
			ctx, cancel := context.WithTimeout(r.Context(), 2500*time.Millisecond)
			if u == fallback {
				ctx = r.Context()
			}
			b, resp := fetch(ctx, u+r.URL.Path, body)
			cancel()
			if resp == nil || resp.StatusCode >= 429 || resp.StatusCode == 200 && !bytes.Contains(b, []byte(`"finish_reason":"stop"`)) {
				continue
			}
			var out [][]byte
			for ev := range bytes.SplitSeq(b, []byte("\n\n")) {
				if data, ok := bytes.CutPrefix(ev, []byte("data: ")); !ok || json.Valid(data) {
					out = append(out, ev)
				}
			}
			w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
			w.WriteHeader(resp.StatusCode)
			w.Write(bytes.Join(out, []byte("\n\n")))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadGateway)
		w.Write([]byte(`{"error":{"message":"all failed","type":"server_error","code":"upstream_error"}}`))
	}
	srv := httptest.NewServer(http.HandlerFunc(h))
	return srv.URL, srv.Close, nil
}

func fetch(ctx context.Context, u string, body []byte) ([]byte, *http.Response) {
	req, _ := http.NewRequestWithContext(ctx, "POST", u, bytes.NewReader(body))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil && !bytes.Contains(b, []byte(`"finish_reason":"stop"`)) {
		return nil, nil
	}
	return b, resp
}

func TestSuiteJudgesABufferingGateway(t *testing.T) {
	cases := quickCases(t)
	for i := range cases { // whole answers fit into what this gateway gives the primary
		for _, s := range []*scenario.Source{&cases[i].Primary, &cases[i].Fallback} {
			s.Latency, s.Interval = scenario.Spread{}, scenario.Spread{}
		}
		if cases[i].ID == "S06" {
			cases[i].Patience = time.Minute
		}
		if cases[i].ID == "S07" {
			cases[i].Primary.Faults[0].Delay, cases[i].Expect.Within = 30*time.Second, 20*time.Second
		}
	}
	var out bytes.Buffer
	r, err := RunSuite(t.Context(), Options{Start: buffering, cases: cases, Progress: &out, JSON: true})
	if err != nil {
		t.Fatal(err)
	}
	for id, v := range verdicts(r) {
		want := "pass"
		if id == "S15" {
			want = "partial" // no breaker: every request of the outage knocks at the dead primary
		}
		if v != want {
			t.Errorf("%s: %s, want %s", id, v, want)
		}
	}
	for _, c := range r.Scenarios {
		t.Logf("%+v", c)
	}
	var back struct {
		Suite, Profile string
		Scenarios      []map[string]any
	}
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back.Suite != "failover" || len(back.Scenarios) != 16 {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, field := range []string{"id", "verdict", "attempts_primary", "attempts_fallback", "wall_s", "note"} {
		if _, ok := back.Scenarios[0][field]; !ok {
			t.Errorf("no field %s", field)
		}
	}
}

func TestSuiteAgainstARunningGateway(t *testing.T) {
	cases := quickCases(t)
	var fixed [2]int
	for i := range fixed {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		fixed[i] = l.Addr().(*net.TCPAddr).Port
		l.Close()
	}
	gw, stop, err := naive(t.Context(), "http://"+net.JoinHostPort("127.0.0.1", itoa(fixed[0])), "")
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var out bytes.Buffer
	r, err := RunSuite(t.Context(), Options{URL: gw, PrimaryPort: fixed[0], FallbackPort: fixed[1], cases: cases, Progress: &out,
		Only: []string{"S03", "S04", "S12"}, Protocols: []gateway.Protocol{gateway.OpenAI, gateway.Gemini}})
	if err != nil {
		t.Fatal(err)
	}
	got := verdicts(r)
	for id, want := range map[string]string{"S03/openai": "safe", "S04/gemini": "safe", "S12/openai": "pass", "S12/gemini": "pass"} {
		if got[id] != want {
			t.Errorf("%s: %q, want %s", id, got[id], want)
		}
	}
	if !strings.HasPrefix(out.String(), "primary   http://127.0.0.1:"+itoa(fixed[0])) {
		t.Errorf("the ports are not told first:\n%s", out.String())
	}
}

// TestJudge is the table of what makes which verdict.
func TestJudge(t *testing.T) {
	const text = "a b c"
	ok := client.Result{End: client.Complete, Text: text, Status: 200}
	none := 0
	at := func(s ...float64) []Attempt {
		var out []Attempt
		for _, v := range s {
			out = append(out, Attempt{At: time.Unix(0, int64(v*1e9)), Whole: true, Source: "primary"})
		}
		return out
	}
	down := scenario.Case{Primary: SourceConfig{Faults: []Fault{{Kind: fault.Status, For: 60 * time.Second}}}}
	for i, c := range []struct {
		c    scenario.Case
		x    scenario.Expect
		r    client.Result
		p, f []Attempt
		want Verdict
		note string
	}{
		{r: ok, want: Pass},
		{r: client.Result{End: client.Complete, Text: "a b"}, want: Fail, note: "truncated text"},
		{r: client.Result{End: client.Complete, Text: "a b b c"}, want: Fail, note: "duplicated text"},
		{r: client.Result{End: client.Complete, Text: "x y"}, want: Fail, note: "wrong text"},
		{r: client.Result{End: client.Complete}, want: Fail, note: "empty text"},
		{r: client.Result{End: client.Truncated, Text: text}, want: Fail},
		{r: client.Result{End: client.Hung}, want: Fail},
		{r: client.Result{End: client.Broken, Status: 200}, want: Fail},
		{r: client.Result{End: client.Broken, Status: 502}, want: Safe},
		{r: client.Result{End: client.Failed, Status: 502}, want: Safe},
		{r: client.Result{End: client.Failed, Status: 400, ErrorMessage: "too long indeed"}, x: scenario.Expect{ErrorStatus: 400, ErrorText: "too long"}, want: Pass},
		{r: client.Result{End: client.Failed, Status: 500, ErrorMessage: "too long"}, x: scenario.Expect{ErrorStatus: 400, ErrorText: "too long"}, want: Safe},
		{r: ok, x: scenario.Expect{ErrorStatus: 400}, want: Partial},
		{r: ok, x: scenario.Expect{PrimaryMax: 1}, p: at(1, 2), want: Partial},
		{r: ok, x: scenario.Expect{Hammering: 2}, p: at(1, 2, 3), want: Fail, note: "hammering"},
		{r: client.Result{End: client.Failed}, x: scenario.Expect{PrimaryMax: 1}, p: at(1, 2), want: Safe},
		{r: ok, x: scenario.Expect{FallbackMax: &none}, f: at(1), want: Partial},
		{r: ok, x: scenario.Expect{NotBefore: 1800 * time.Millisecond}, p: at(1, 2), want: Partial},
		{r: ok, x: scenario.Expect{NotBefore: 1800 * time.Millisecond}, p: at(1, 3), want: Pass},
		{r: client.Result{End: client.Complete, Text: text, EndedAfter: 3e9}, x: scenario.Expect{Within: 2e9}, want: Partial},
		{r: client.Result{End: client.Complete, Text: text, EndedAfter: 3e9, LastAfter: 1e9}, x: scenario.Expect{Tail: 1e9}, want: Partial},
		{c: down, r: ok, x: scenario.Expect{DeadMax: 2, BackWithin: 30e9}, p: at(1, 2, 61), want: Pass},
		{c: down, r: ok, x: scenario.Expect{DeadMax: 2, BackWithin: 30e9}, p: at(1, 2, 3, 61), want: Partial, note: "3 attempts on the dead primary"},
		{c: down, r: ok, x: scenario.Expect{BackWithin: 30e9}, p: at(1, 99), want: Partial, note: "39 s after"},
		{c: down, r: ok, x: scenario.Expect{BackWithin: 30e9}, p: at(1), want: Partial, note: "never back"},
		{r: ok, x: scenario.Expect{NamesServed: true}, p: at(1), want: Partial, note: "name the primary"},
		{r: client.Result{End: client.Complete, Text: text, Model: "m-primary", Usage: client.Usage{Output: 3, Reports: 1}}, x: scenario.Expect{NamesServed: true}, p: at(1), want: Pass},
		{r: client.Result{End: client.Complete, Text: text, Model: "m-primary", Usage: client.Usage{Output: 6, Reports: 1}}, x: scenario.Expect{NamesServed: true}, p: at(1), want: Partial, note: "usage"},
	} {
		c.c.Expect = c.x
		got, note := judge(c.c, evidence{began: time.Unix(0, 0), results: []client.Result{c.r}, texts: []string{text}, primary: c.p, second: c.f, words: 3})
		if got != c.want || !strings.Contains(note, c.note) {
			t.Errorf("%d: %s (%s), want %s (%s)", i, got, note, c.want, c.note)
		}
	}
}

package app

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"spillway/internal/gateway"
)

// keeper is an upstream that stores responses: each key knows only what it has made.
type keeper struct {
	talkers
	made sync.Map // id -> key
	n    int
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	status := k.fails[bearer(r)]
	k.n++
	id := fmt.Sprintf("resp_%d", k.n)
	k.mu.Unlock()
	if status != 0 {
		answerJSON(w, status, `{"error":{"message":"not now","type":"server_error"}}`)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var in struct {
		Previous string `json:"previous_response_id"`
		Stream   bool   `json:"stream"`
	}
	_ = json.Unmarshal(body, &in)
	if in.Previous != "" {
		if by, ok := k.made.Load(in.Previous); !ok || by != bearer(r) {
			answerJSON(w, 404, fmt.Sprintf(`{"error":{"message":"Previous response with id '%s' not found.","type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"}}`, in.Previous))
			return
		}
	}
	k.made.Store(id, bearer(r))
	item := fmt.Sprintf(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"served by %s"}]}`, bearer(r))
	if !in.Stream {
		answerJSON(w, 200, fmt.Sprintf(`{"id":"%s","object":"response","status":"completed","model":"m","output":[%s]}`, id, item))
		return
	}
	sendEvents(w, fmt.Sprintf("event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"%s\",\"object\":\"response\",\"status\":\"in_progress\",\"output\":[]}}\n\n", id),
		fmt.Sprintf("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"delta\":\"served by %s\"}\n\n", bearer(r)),
		fmt.Sprintf("event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":{\"id\":\"%s\",\"object\":\"response\",\"status\":\"completed\",\"output\":[%s]}}\n\n", id, item))
}

// reply is what a client of the Responses API sees.
type reply struct {
	status   int
	id, by   string
	code     string
	message  string
	verbatim string
}

// respond sends one call to /v1/responses; extra is more members of the body.
func (b *bubble) respond(key, extra string) reply {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, gatewayURL+"/v1/responses",
		strings.NewReader(`{"model":"smart","input":"hi"`+extra+`}`))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	r := reply{status: res.StatusCode, verbatim: string(body)}
	var in struct {
		Error struct{ Code, Message string }
	}
	_ = json.Unmarshal(body, &in)
	r.code, r.message = in.Error.Code, in.Error.Message
	if _, rest, ok := strings.Cut(r.verbatim, `"id":"`); ok && r.status == 200 {
		r.id, _, _ = strings.Cut(rest, `"`)
	}
	if _, rest, ok := strings.Cut(r.verbatim, "served by "); ok {
		r.by, _, _ = strings.Cut(rest, `"`)
	}
	return r
}

func (r reply) next() string { return fmt.Sprintf(`,"previous_response_id":%q`, r.id) }

// clientKeys is the YAML of client keys by name; the key of a name is "sk-NAME".
func clientKeys(names ...string) string {
	var b strings.Builder
	b.WriteString("keys:\n")
	for _, n := range names {
		sum := sha256.Sum256([]byte("sk-" + n))
		fmt.Fprintf(&b, "  - {name: %s, hash: 'sha256:%s', scopes: [inference]}\n", n, hex.EncodeToString(sum[:]))
	}
	return b.String()
}

// A response that refers to an earlier one goes to the connection that has it, over a restart, whatever the strategy.
func TestResponsesGoWhereTheirPredecessorIs(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", new(keeper).ServeHTTP)
		b.Open(underStrategy("round-robin", keyed("a", 4)) + combo("a"))
		var chains []reply
		for n := range 4 {
			stream := ""
			if n%2 == 1 {
				stream = `,"stream":true`
			}
			chains = append(chains, b.respond("", stream))
		}
		for round := range 6 {
			if round == 3 {
				b.Restart(time.Hour)
			}
			for i, c := range chains {
				stream := ""
				if round%2 == 1 {
					stream = `,"stream":true`
				}
				r := b.respond("", c.next()+stream)
				if r.status != 200 || r.by != c.by {
					t.Fatalf("round %d, chain %d: status %d, served by %q, want %q: %s\n%s", round, i, r.status, r.by, c.by, r.verbatim, b.Story())
				}
				chains[i] = r
				time.Sleep(time.Minute)
			}
		}
		j := b.Journeys()[0]
		if j.Attempts[0].Why != gateway.ObjectPinned || j.Reasons["object_elsewhere"] != 3 {
			t.Errorf("why %s, left out %v", j.Attempts[0].Why, j.Reasons)
		}
	})
}

// What is stored at one account is looked for nowhere else: its failure is the request's failure.
func TestPinnedRequestsDoNotFailOver(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		k := new(keeper)
		b.Handle("a", k.ServeHTTP)
		b.Open(keyed("a", 3) + combo("a") + "waits: {enabled: false}\n")
		first := b.respond("", "")
		k.fail(first.by, 503)
		r := b.respond("", first.next())
		if r.status != 503 {
			t.Errorf("status %d: %s", r.status, r.verbatim)
		}
		for _, a := range b.Journeys()[0].Attempts {
			if a.Reason != gateway.UpstreamStatus || "key-"+strings.TrimPrefix(string(a.Connection), "a-") != first.by {
				t.Errorf("asked %s: %s", a.Connection, a.Reason)
			}
		}
		k.fail(first.by, 0)
		time.Sleep(5 * time.Minute)
		if r := b.respond("", first.next()); r.by != first.by {
			t.Errorf("served by %q, want %q: %s", r.by, first.by, r.verbatim)
		}
	})
}

// An id belongs to the client key that made it; nobody else learns even that it is known.
func TestAnotherClientKeyCannotUseAPin(t *testing.T) {
	for n := 1; n <= 2; n++ { // with one account as well: an upstream does not know our client keys
		inBubble(t, func(t *testing.T, b *bubble) {
			b.Handle("a", new(keeper).ServeHTTP)
			b.Open(keyed("a", n) + combo("a") + clientKeys("one", "two"))
			first := b.respond("sk-one", "")
			asked := len(b.Calls("a"))
			other := b.respond("sk-two", first.next())
			unknown := b.respond("sk-two", `,"previous_response_id":"resp_0"`)
			if other.status != 404 || other.code != string(gateway.NotFound) || len(b.Calls("a")) != asked {
				t.Errorf("status %d %q, %d calls: %s", other.status, other.code, len(b.Calls("a"))-asked, other.verbatim)
			}
			if strings.ReplaceAll(other.message, first.id, "resp_0") != unknown.message {
				t.Errorf("one can tell ids of others: %q, %q", other.message, unknown.message)
			}
			if strings.Contains(other.verbatim, "a-1") {
				t.Errorf("a connection is named: %s", other.verbatim)
			}
			if r := b.respond("sk-one", first.next()); r.by != first.by {
				t.Errorf("its owner gets %d: %s", r.status, r.verbatim)
			}
			b.NothingOut()
		})
	}
}

// What was made elsewhere can only be found where one account is; else the caller is told, and no account is blamed.
func TestUnknownObjects(t *testing.T) {
	for _, row := range []struct {
		accounts int
		extra    string
		status   int
		asked    int
	}{
		{2, `,"previous_response_id":"resp_other"`, 404, 0},
		{1, `,"previous_response_id":"resp_other"`, 404, 1}, // the upstream's own words
		{2, `,"conversation":{"id":"conv_1"}`, 404, 0},
		{1, `,"conversation":"conv_1"`, 200, 1},
		{2, `,"tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]`, 404, 0},
		{2, `,"previous_response_id":null,"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]`, 200, 1},
	} {
		inBubble(t, func(t *testing.T, b *bubble) {
			b.Handle("a", new(keeper).ServeHTTP)
			b.Open(keyed("a", row.accounts) + combo("a"))
			r := b.respond("", row.extra)
			if n := len(b.Calls("a")); r.status != row.status || n != row.asked {
				t.Errorf("%s, %d accounts: status %d after %d calls: %s", row.extra, row.accounts, r.status, n, r.verbatim)
			}
			if row.asked == 0 && (r.code != string(gateway.NotFound) || !strings.Contains(r.message, "several accounts")) {
				t.Errorf("unclear: %s", r.verbatim)
			}
			b.NothingOut()
		})
	}
}

// What is not stored is not remembered, and what is stored at two accounts cannot be used together.
func TestPinsOfUnstoredAndOfTwoAccounts(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", new(keeper).ServeHTTP)
		b.Open(underStrategy("round-robin", keyed("a", 2)) + combo("a"))
		b.respond("", `,"store":false`)
		if n := b.app.rooms.affinity.Objects(); n != 0 {
			t.Errorf("%d objects are remembered", n)
		}
		one, two := b.respond("", ""), b.respond("", "")
		if one.by == two.by {
			t.Fatal("the test needs two connections")
		}
		r := b.respond("", fmt.Sprintf(`,"previous_response_id":%q,"conversation":%q`, one.id, two.id))
		if r.status != 400 || r.code != string(gateway.InvalidRequest) || !strings.Contains(r.message, "two accounts") {
			t.Errorf("status %d %q: %s", r.status, r.code, r.verbatim)
		}
		b.Reload(underStrategy("round-robin", keyed("a", 1)) + combo("a"))
		gone := one
		if one.by == "key-1" {
			gone = two
		}
		if r := b.respond("", gone.next()); r.status != 404 || !strings.Contains(r.message, "does not serve") {
			t.Errorf("a connection that is gone: status %d: %s", r.status, r.verbatim)
		}
	})
}

// With much in its upstream's cache a session waits for a preferred target that says when it is back; with little it goes
// on elsewhere.
func TestSessionsWaitForTheirCache(t *testing.T) {
	for tokens, want := range map[int]string{100_000: "key-a", 10_000: "key-b"} {
		inBubble(t, func(t *testing.T, b *bubble) {
			var mu sync.Mutex
			var until time.Time
			up := new(talkers)
			b.Handle("a", func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				wait := time.Until(until)
				mu.Unlock()
				if wait > 0 {
					w.Header().Set("Retry-After", fmt.Sprint(int(wait.Seconds())+1))
					answerJSON(w, 429, `{"error":{"message":"slow down","type":"rate_limit_error"}}`)
					return
				}
				up.ServeHTTP(w, r)
			})
			b.Handle("b", new(talkers).ServeHTTP)
			b.Open(providers("a", "b") + combo("a", "b"))
			s := &talk{name: "x", tokens: tokens}
			b.say(s)
			b.say(s)
			mu.Lock()
			until = time.Now().Add(12 * time.Second)
			mu.Unlock()
			if by := b.say(s); by != want {
				t.Errorf("%d tokens: served by %q: %s", tokens, by, b.Story())
			}
		})
	}
}

// Stored responses are read, cancelled and deleted where they were made, by the client key that made them.
func TestStoredResponses(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.lenient = true // the harness counts calls with a body only
		k := new(keeper)
		var mu sync.Mutex
		var seen []string
		b.Handle("a", func(w http.ResponseWriter, r *http.Request) {
			_, rest, found := strings.Cut(r.URL.Path, "/responses/")
			if !found {
				k.ServeHTTP(w, r)
				return
			}
			mu.Lock()
			seen = append(seen, r.Method+" "+rest+"?"+r.URL.RawQuery+" "+bearer(r))
			mu.Unlock()
			for h := range r.Header {
				if h == "Cookie" || strings.HasPrefix(h, "X-S") {
					t.Errorf("sent upstream: %s", h)
				}
			}
			if strings.HasSuffix(rest, "/cancel") {
				answerJSON(w, 409, `{"error":{"message":"already complete","type":"invalid_request_error"}}`)
				return
			}
			answerJSON(w, 200, `{"id":"`+rest+`","object":"response"}`)
		})
		b.Open(underStrategy("round-robin", keyed("a", 4)) + combo("a") + clientKeys("one", "two"))
		ask := func(key, method, path string) (int, string) {
			req, err := http.NewRequestWithContext(t.Context(), method, gatewayURL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer sk-"+key)
			req.Header.Set("Cookie", "x=1")
			req.Header.Set("X-Session-Id", "s")
			res, err := b.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			return res.StatusCode, string(body)
		}
		b.respond("sk-one", "")
		made := b.respond("sk-one", "")
		for _, row := range []struct {
			key, method, behind string
			status              int
			want                string // that the upstream saw, behind the id; "" = nothing
		}{
			{"one", "GET", "?include=x", 200, "?include=x"},
			{"one", "GET", "/input_items?limit=2", 200, "/input_items?limit=2"},
			{"one", "POST", "/cancel", 409, "/cancel?"},
			{"two", "GET", "", 404, ""},
			{"two", "DELETE", "", 404, ""},
			{"one", "PUT", "", 405, ""},
			{"one", "GET", "%2f..%2fmodels", 404, ""},
			{"one", "DELETE", "", 200, "?"},
			{"one", "GET", "", 404, ""}, // it is gone
		} {
			mu.Lock()
			seen = nil
			mu.Unlock()
			status, body := ask(row.key, row.method, "/v1/responses/"+made.id+row.behind)
			want := ""
			if row.want != "" {
				want = row.method + " " + made.id + row.want + " " + made.by
			}
			if have := strings.Join(seen, ", "); status != row.status || have != want {
				t.Errorf("%s %s by %s: status %d, the upstream saw %q, want %d %q: %s", row.method, row.behind, row.key, status, have, row.status, want, body)
			}
		}
		b.NothingOut()
		for _, j := range b.Journeys() {
			if j.Model == "stored response" && (len(j.Attempts) != 1 || j.Attempts[0].Why != gateway.ObjectPinned) {
				t.Errorf("decision log: %+v", j)
			}
		}
	})
}

// A stored response is found at whichever of several connections it is, also when those before it could have had it.
func TestStoredResponsesOfManyConnections(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.lenient = true // the harness counts calls with a body only
		k := new(keeper)
		b.Handle("a", func(w http.ResponseWriter, r *http.Request) {
			if _, id, found := strings.Cut(r.URL.Path, "/responses/"); found {
				w.Header().Set("Content-Encoding", "gzip") // although nobody has asked for that
				w.Header().Set("Content-Type", "application/json")
				z := gzip.NewWriter(w)
				fmt.Fprintf(z, `{"id":%q,"object":"response","by":%q}`, id, bearer(r))
				_ = z.Close()
				return
			}
			k.ServeHTTP(w, r)
		})
		b.Open(underStrategy("round-robin", keyed("a", 4)) + combo("a") + clientKeys("one"))
		for range 4 {
			made := b.respond("sk-one", "")
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, gatewayURL+"/v1/responses/"+made.id, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer sk-one")
			res, err := b.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			z, err := gzip.NewReader(res.Body)
			if err != nil || res.Header.Get("Content-Encoding") != "gzip" {
				t.Fatalf("%s: %v %v", made.id, err, res.Header)
			}
			body, _ := io.ReadAll(z)
			res.Body.Close()
			if res.StatusCode != 200 || !strings.Contains(string(body), made.by) {
				t.Errorf("%s of %s: %d %s", made.id, made.by, res.StatusCode, body)
			}
		}
	})
}

// A stream that tells its id at the end only is pinned then.
func TestPinOfAStreamThatNamesItselfLate(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.Handle("a", func(w http.ResponseWriter, r *http.Request) {
			sendEvents(w, "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":1,\"delta\":\"served by "+bearer(r)+"\"}\n\n",
				"event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":{\"id\":\"resp_late\",\"object\":\"response\",\"status\":\"completed\",\"output\":[]}}\n\n")
		})
		b.Open(underStrategy("round-robin", keyed("a", 4)) + combo("a"))
		first := b.respond("", `,"stream":true`)
		for range 4 {
			if r := b.respond("", first.next()+`,"stream":true`); r.by != first.by {
				t.Errorf("served by %q, want %q: %s", r.by, first.by, r.verbatim)
			}
		}
		if n := b.app.rooms.affinity.Objects(); n != 1 {
			t.Errorf("%d objects", n)
		}
	})
}

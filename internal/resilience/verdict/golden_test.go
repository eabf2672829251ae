package verdict

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
)

var update = flag.Bool("update", false, "write the expected half of the golden files")

// endedAt is the instant at which every sample ended.
var endedAt = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

var builtinRules = func() *Rules {
	r, err := Compile(nil, nil)
	if err != nil {
		panic(err)
	}
	return r
}()

const dashes = "\n---\n"

// TestGolden judges samples that look like what providers really send. The first half of a file is the response: lines
// "@name value" that set the scene, then status, headers, an empty line and the body. The second half is the outcome.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*/*.txt")
	if err != nil || len(files) < 300 {
		t.Fatalf("%d golden files (%v), want at least 300", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(file, "testdata/golden/"), ".txt")
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(string(raw), dashes)
			got := describe(builtinRules.Judge(sample(t, input)))
			if *update {
				if err := os.WriteFile(file, []byte(strings.TrimRight(input, "\n")+dashes+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("outcome of\n%s\ngot:\n%s\nwant:\n%s", input, got, want)
			}
		})
	}
}

// candidate is a candidate for tests.
func candidate(provider, baseURL, model string) gateway.Candidate {
	return gateway.Candidate{Model: gateway.ModelID(model), Connection: &gateway.Connection{
		ID: gateway.ConnectionID(provider + "-1"), Credential: gateway.NewCredential("test-credential-0123456789", nil),
		Provider: &gateway.Provider{ID: gateway.ProviderID(provider), BaseURL: baseURL},
	}}
}

func sample(t *testing.T, input string) Evidence {
	t.Helper()
	e := Evidence{Candidate: candidate("p", "https://upstream.test/v1", "m1"), Header: http.Header{},
		BeganAt: endedAt.Add(-time.Second), EndedAt: endedAt}
	head, body, _ := strings.Cut(input, "\n\n")
	e.Body = []byte(body)
	for line := range strings.SplitSeq(head, "\n") {
		name, value, _ := strings.Cut(line, " ")
		value = strings.TrimSpace(value)
		switch name {
		case "@provider":
			e.Candidate.Connection.Provider.ID = gateway.ProviderID(value)
		case "@base_url":
			e.Candidate.Connection.Provider.BaseURL = value
		case "@model":
			e.Candidate.Model = gateway.ModelID(value)
		case "@class":
			c, err := gateway.ParseClass(value)
			if err != nil {
				t.Fatal(err)
			}
			e.Candidate.Connection.Provider.Class = c
		case "@per_model_quota":
			e.Candidate.Connection.Provider.PerModelQuota = true
		case "@in_stream":
			e.InStream = true
		case "@content":
			e.Content = true
		case "@not_completion":
			e.NotCompletion = true
		case "@request":
			e.RequestText = func() []byte { return []byte(value) }
		default:
			if strings.HasPrefix(line, "@") {
				t.Fatalf("unknown line %q", line)
			}
			if n, err := strconv.Atoi(name); err == nil && e.Status == 0 {
				e.Status = n
			} else if k, v, ok := strings.Cut(line, ":"); ok {
				e.Header.Add(k, strings.TrimSpace(v))
			}
		}
	}
	return e
}

// describe writes what is not zero, one line each.
func describe(o gateway.Outcome) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s %d\n", o.Kind, o.Scope, o.Reason, o.Status)
	if o.RetryAfter > 0 {
		fmt.Fprintf(&b, "retry after %s (%s)\n", o.RetryAfter, o.Hint)
	}
	if o.TellAfter > 0 {
		fmt.Fprintf(&b, "tell the client %s\n", o.TellAfter)
	}
	for _, f := range [][2]string{{"rule", o.Rule}, {"code", o.Code}, {"type", o.Type}, {"quirk", o.Quirk}, {"message", o.Message}} {
		if f[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", f[0], f[1])
		}
	}
	for _, f := range []struct {
		name string
		on   bool
	}{{"structured", o.Structured}, {"retired", o.Retired}, {"uncounted", o.Uncounted}, {"below http", o.BelowHTTP}, {"content", o.Content}} {
		if f.on {
			b.WriteString(f.name + "\n")
		}
	}
	return b.String()
}

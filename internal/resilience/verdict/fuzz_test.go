package verdict

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"spillway/internal/gateway"
)

func FuzzJudge(f *testing.F) {
	files, _ := filepath.Glob("testdata/golden/*/*.txt")
	for i, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		head, _, _ := strings.Cut(string(raw), dashes)
		_, body, _ := strings.Cut(head, "\n\n")
		f.Add([]byte(body), []int{200, 400, 401, 402, 403, 404, 429, 500, 503}[i%9], i%2 == 0, "retry-after", "5", "sk-test-0123456789", []byte(`{"messages":[]}`))
	}
	f.Fuzz(func(t *testing.T, body []byte, status int, inStream bool, name, value, credential string, request []byte) {
		e := Evidence{Candidate: candidate("openrouter", "https://openrouter.ai/api/v1", "m1"), Status: status, InStream: inStream,
			Header: http.Header{http.CanonicalHeaderKey(name): {value}}, Body: body, BeganAt: endedAt, EndedAt: endedAt,
			RequestText: func() []byte { return request }}
		e.Candidate.Connection.Credential = gateway.NewCredential(gateway.Secret(credential), nil)
		o := builtinRules.Judge(e)
		if o.Kind >= gateway.NumKinds || o.Scope > gateway.ScopeProvider || o.RetryAfter < 0 || o.RetryAfter > maxHint {
			t.Fatalf("%+v", o)
		}
		for _, s := range []string{o.Message, o.Code, o.Type} {
			if len(credential) >= shortSecret && strings.TrimSpace(credential) == credential && strings.Contains(s, credential) {
				t.Fatalf("%q shows the credential %q", s, credential)
			}
			if len([]rune(s)) > maxMessage || strings.ContainsAny(s, "\x00\n\r\x1b") {
				t.Fatalf("unclean %q", s)
			}
		}
		if o.Structured && o.Kind == gateway.Banned && status < 300 && !inStream {
			t.Fatalf("banned without a word of the upstream: %+v", o)
		}
		Hint(status, e.Header, body, endedAt)
	})
}

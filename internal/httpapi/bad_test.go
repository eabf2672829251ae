package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"spillway/internal/gateway"
)

var update = flag.Bool("update", false, "rewrite docs/bad-input.md")

const page = "../../docs/bad-input.md"

// bad is one bad input: what is wrong with it, and how to make it of a good request.
type bad struct {
	name   string
	body   func(good string) string // nil = good
	header []string
	change func(r *http.Request)
	method string
	path   func(good string) string
	keyed  bool               // against a gateway with client keys
	only   []gateway.Protocol // nil = all
}

func always(body string) func(string) string { return func(string) string { return body } }

// member puts more members behind the opening brace.
func member(text string) func(string) string {
	return func(good string) string { return "{" + text + "," + good[1:] }
}

// model replaces the model, or adds one.
func model(json string) func(string) string {
	return func(good string) string { return strings.Replace(good, `"model":"m"`, `"model":`+json, 1) }
}

func without(old string) func(string) string {
	return func(good string) string { return strings.Replace(good, old, "", 1) }
}

func cut(n int) func(string) string { return func(good string) string { return good[:len(good)-n] } }

func zipped(good string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, good)
	_ = z.Close()
	return b.String()
}

func query(q string) func(string) string { return func(path string) string { return path + q } }

var modelInBody = []gateway.Protocol{gateway.OpenAI, gateway.Responses, gateway.Anthropic}

var badInputs = []bad{
	{name: "empty body", body: always("")},
	{name: "only spaces", body: always(" \n\t ")},
	{name: "no JSON", body: always("hello")},
	{name: "HTML", body: always("<html></html>")},
	{name: "form", body: always("model=m&stream=true")},
	{name: "an array", body: always(`[{"model":"m"}]`)},
	{name: "a string", body: always(`"model"`)},
	{name: "a number", body: always("42")},
	{name: "null", body: always("null")},
	{name: "true", body: always("true")},
	{name: "cut inside", body: cut(9)},
	{name: "last brace missing", body: cut(1)},
	{name: "cut inside a string", body: always(`{"model":"m`)},
	{name: "cut behind a colon", body: always(`{"model":`)},
	{name: "a comma too many", body: member(`"a":1,`)},
	{name: "comma missing", body: always(`{"a":1 "b":2}`)},
	{name: "text behind the object", body: func(good string) string { return good + " and more" }},
	{name: "two objects", body: func(good string) string { return good + good }},
	{name: "name without quotes", body: member(`a:1`)},
	{name: "single quotes", body: always(`{'model':'m'}`)},
	{name: "comment", body: member(`/* c */ "a":1`)},
	{name: "bad escape", body: member(`"a":"\x41"`)},
	{name: "half an escape", body: member(`"a":"\u12"`)},
	{name: "line feed in a string", body: member("\"a\":\"b\nc\"")},
	{name: "NUL in a string", body: member("\"a\":\"b\x00c\"")},
	{name: "NaN", body: member(`"a":NaN`)},
	{name: "leading zero", body: member(`"a":01`)},
	{name: "number without digits", body: member(`"a":-`)},
	{name: "invalid UTF-8", body: member("\"a\":\"\xff\xfe\"")},
	{name: "UTF-8 byte order mark", body: func(good string) string { return "\ufeff" + good }},
	{name: "UTF-16", body: always("{\x00\"\x00m\x00\"\x00")},
	{name: "gzip", body: zipped, header: []string{"Content-Encoding", "gzip"}},
	{name: "gzip, not announced", body: zipped},
	{name: "deep nesting", body: member(`"a":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000))},
	{name: "a name twice", body: member(`"a":1,"a":2`)},
	{name: "the model twice", body: member(`"model":"other"`), only: modelInBody},
	{name: "the model twice, once escaped", body: member(`"mod\u0065l":"other"`), only: modelInBody},
	{name: "no model", body: without(`"model":"m",`), only: modelInBody},
	{name: "model null", body: model("null"), only: modelInBody},
	{name: "model a number", body: model("5"), only: modelInBody},
	{name: "model an object", body: model(`{"id":"m"}`), only: modelInBody},
	{name: "model empty", body: model(`""`), only: modelInBody},
	{name: "unknown model", body: model(`"nothing-of-ours"`), only: modelInBody},
	{name: "unknown provider", body: model(`"nobody/m"`), only: modelInBody},
	{name: "control characters in the model", body: model(`"m\u0000\u001b[31m\r\nX: y"`), only: modelInBody},
	{name: "very long model", body: model(`"` + strings.Repeat("m", 5000) + `"`), only: modelInBody},
	{name: "stream no boolean", body: member(`"stream":"yes"`), only: modelInBody},
	{name: "unknown model in the path", path: always("/v1beta/models/nothing-of-ours:generateContent"), only: []gateway.Protocol{gateway.Gemini}},
	{name: "no model in the path", path: always("/v1beta/models/:generateContent"), only: []gateway.Protocol{gateway.Gemini}},
	{name: "no verb in the path", path: always("/v1beta/models/m"), only: []gateway.Protocol{gateway.Gemini}},
	{name: "unknown verb in the path", path: always("/v1beta/models/m:doNothing"), only: []gateway.Protocol{gateway.Gemini}},
	{name: "control characters in the path", path: always("/v1beta/models/m%00%1b:doNothing"), only: []gateway.Protocol{gateway.Gemini}},
	{name: "stream without alt=sse", path: always("/v1beta/models/m:streamGenerateContent"), only: []gateway.Protocol{gateway.Gemini}},
	{name: "body over limits.body", body: member(`"a":"` + strings.Repeat("x", 64<<10) + `"`)},
	{name: "body over limits.body, chunked", change: chunkedBig},
	{name: "announced length over limits.body", change: func(r *http.Request) { r.ContentLength = 1 << 40 }},
	{name: "connection lost inside the body", change: func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(endless{strings.NewReader(`{"mod`), errors.New("reset")}), 500
	}},
	{name: "content type text/plain", header: []string{"Content-Type", "text/plain"}},
	{name: "content type of a form", header: []string{"Content-Type", "application/x-www-form-urlencoded"}},
	{name: "content type missing", header: []string{"Content-Type", ""}},
	{name: "foreign Origin", header: []string{"Origin", "https://evil.example"}},
	{name: "Origin null", header: []string{"Origin", "null"}},
	{name: "cross-site fetch", header: []string{"Sec-Fetch-Site", "cross-site"}},
	{name: "foreign Host", change: func(r *http.Request) { r.Host = "rebound.example:4000" }},
	{name: "Host with another port", change: func(r *http.Request) { r.Host = "127.0.0.1:80" }},
	{name: "GET", method: "GET"},
	{name: "DELETE", method: "DELETE"},
	{name: "OPTIONS", method: "OPTIONS"},
	{name: "unknown path", path: query("/nothing")},
	{name: "no key", keyed: true},
	{name: "wrong key", keyed: true, header: []string{"Authorization", "Bearer sk-spw-wrong"}},
	{name: "key without Bearer", keyed: true, header: []string{"Authorization", dev}},
	{name: "key of 10 kB", keyed: true, header: []string{"X-Api-Key", strings.Repeat("k", 10_000)}},
	{name: "key with control characters", keyed: true, header: []string{"X-Api-Key", dev + "\x01"}},
	{name: "key that may not use the model", keyed: true, header: []string{"Authorization", "Bearer " + narrow}},
	{name: "key without the scope inference", keyed: true, header: []string{"Authorization", "Bearer " + watcher}},
}

func chunkedBig(r *http.Request) {
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(`{"a":"`+strings.Repeat("x", 64<<10))), -1
}

func (b bad) request(p gateway.Protocol) *http.Request {
	good := calls[p]
	method, path, body := "POST", good.path, good.body
	if b.method != "" {
		method = b.method
	}
	if b.path != nil {
		path = b.path(path)
	}
	if b.body != nil {
		body = b.body(body)
	}
	header := b.header
	if p == gateway.Anthropic {
		header = append([]string{"Anthropic-Version", "2023-06-01"}, header...)
	}
	r := request(method, path, strings.NewReader(body), header...)
	if b.change != nil {
		b.change(r)
	}
	return r
}

// TestBadInput sends every bad input to the whole gateway in every protocol. Each must end in one clear error in that
// protocol, which docs/bad-input.md shows, and nothing may reach a provider.
func TestBadInput(t *testing.T) {
	u := newUpstream(t, nil)
	open, first := serve(t, provider(u)+"limits: {body: 64KiB}\n")
	keyed, second := serve(t, withKeys(provider(u)+"limits: {body: 64KiB}\n"))
	var out strings.Builder
	out.WriteString("# Bad input\n\n<!-- Made by go test ./internal/httpapi -update. Do not edit. -->\n\n" +
		"What the gateway answers to requests that it cannot take. Nothing of these reaches a provider. Inputs about keys are sent to a gateway with client keys, the others to one without.\n\n" +
		"## Requests\n\n| input | protocol | status | code | message | field |\n|---|---|---|---|---|---|\n")
	for _, b := range badInputs {
		protocols := b.only
		if protocols == nil {
			protocols = []gateway.Protocol{gateway.OpenAI, gateway.Responses, gateway.Anthropic, gateway.Gemini}
		}
		var rows merged
		for _, p := range protocols {
			t.Run(b.name+"/"+p.String(), func(t *testing.T) {
				h := open
				if b.keyed {
					h = keyed
				}
				r := do(h, b.request(p))
				want := p
				if strings.HasPrefix(b.name, "unknown path") && p == gateway.Responses {
					want = gateway.OpenAI // such a path belongs to neither
				}
				f := failureOf(t, r, want.String())
				checkBad(t, r, f)
				rows.add(p.String(), fmt.Sprintf("%d | `%s` | %s | %s |\n", f.status, f.code, cell(f.message), cell(f.field)))
			})
		}
		for i, end := range rows.ends {
			fmt.Fprintf(&out, "| %s | %s | %s", b.name, strings.Join(rows.protocols[i], ", "), end)
		}
	}
	if u.calls() != 0 {
		t.Errorf("%d requests reached the provider", u.calls())
	}
	if n := first.Buffered() + second.Buffered(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
	out.WriteString("\n## Configuration files\n\nEvery problem of a file is reported at once, with its place. A file with a problem changes nothing.\n\n| input | problems |\n|---|---|\n")
	out.WriteString(badConfigurations(t))
	if t.Failed() {
		return
	}
	if *update {
		if err := os.WriteFile(page, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(page)
	if err != nil || string(have) != out.String() {
		t.Errorf("docs/bad-input.md is out of date (%v): run go test ./internal/httpapi -update and read what changed", err)
	}
}

// merged are the rows of one input; protocols with the same answer share a row.
type merged struct {
	ends      []string
	protocols [][]string
}

func (m *merged) add(protocol, end string) {
	i := slices.Index(m.ends, end)
	if i < 0 {
		i = len(m.ends)
		m.ends, m.protocols = append(m.ends, end), append(m.protocols, nil)
	}
	m.protocols[i] = append(m.protocols[i], protocol)
}

// checkBad is what must hold for every refusal.
func checkBad(t *testing.T, r *http.Response, f failure) {
	t.Helper()
	if f.status < 400 || f.status > 499 {
		t.Errorf("status %d for a fault of the caller: %s", f.status, f.body)
	}
	if gateway.Code(f.code).Status() != f.status {
		t.Errorf("code %q with status %d: %s", f.code, f.status, f.body)
	}
	if r.Header.Get("X-Spillway-Source") != "gateway" || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		t.Errorf("headers %v", r.Header)
	}
	if f.status == 405 && r.Header.Get("Allow") == "" {
		t.Error("405 without Allow")
	}
	if len(f.body) > 2000 {
		t.Errorf("%d bytes of explanation", len(f.body))
	}
	if i := strings.IndexFunc(f.message, func(c rune) bool { return unicode.IsControl(c) || c == unicode.ReplacementChar }); i >= 0 {
		t.Errorf("the message holds control characters: %q", f.message)
	}
	for _, secret := range []string{dev, narrow, "key-of-the-owner", "u1"} {
		if strings.Contains(f.body, secret) {
			t.Errorf("the message tells %q: %s", secret, f.body)
		}
	}
}

// badConfigurations is the table of config's golden files: an input, a line of dashes, the problems.
func badConfigurations(t *testing.T) string {
	files, err := filepath.Glob("../config/testdata/bad/*.txt")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var out strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, problems, ok := strings.Cut(string(data), "-----\n")
		if !ok {
			t.Fatalf("%s: no line of dashes", file)
		}
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(file), ".txt"), "-", " ")
		lines := strings.Split(strings.TrimSpace(problems), "\n")
		for i := range lines {
			lines[i] = cell(lines[i])
		}
		fmt.Fprintf(&out, "| %s | %s |\n", name, strings.Join(lines, "<br>"))
	}
	return out.String()
}

// cell is text as a cell of a Markdown table.
func cell(s string) string {
	const most = 400
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "..."
	}
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "*", `\*`, "_", `\_`).Replace(s)
}

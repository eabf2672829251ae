package app

// What the tests of the wire contract share: OpenAI's published schemas, and exchanges with the whole gateway that keep
// every byte.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// contract resolves OpenAI's schemas by name. Each resolves once; a test that is told a fault sees where it is.
type contract struct {
	mu   sync.Mutex
	all  map[string]*jsonschema.Schema
	done map[string]*jsonschema.Resolved
}

// openAIContract reads testdata/openai/schema.json.
var openAIContract = sync.OnceValue(func() *contract {
	raw, err := os.ReadFile("testdata/openai/schema.json")
	if err != nil {
		panic(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		panic(err)
	}
	return &contract{all: s.Defs, done: map[string]*jsonschema.Resolved{}}
})

// resolve returns the schema of a name.
func (c *contract) resolve(name string) (*jsonschema.Resolved, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.done[name]; r != nil {
		return r, nil
	}
	if c.all[name] == nil {
		return nil, fmt.Errorf("the contract has no schema %s", name)
	}
	root := &jsonschema.Schema{Ref: "#/$defs/" + name, Defs: map[string]*jsonschema.Schema{}}
	for n, s := range c.all {
		root.Defs[n] = s.CloneSchemas()
	}
	r, err := root.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	c.done[name] = r
	return r, nil
}

// conforms says why a JSON text is not what a schema of OpenAI's demands.
func conforms(name string, body []byte) error {
	r, err := openAIContract().resolve(name)
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("%w in %.200q", err, body)
	}
	if err := r.Validate(v); err != nil {
		return fmt.Errorf("no valid %s: %w\n%s", name, err, body)
	}
	return nil
}

// frame is one server-sent event.
type frame struct {
	name string
	data []byte
}

func (f frame) done() bool { return string(f.data) == "[DONE]" }

// parsed is the data as JSON; nil where it is none.
func (f frame) parsed() map[string]any {
	var v map[string]any
	_ = json.Unmarshal(f.data, &v)
	return v
}

// exchange is one request and all that came back.
type exchange struct {
	status int
	head   http.Header
	body   []byte
	frames []frame // of an event stream
}

// Exchange sends a request and reads the answer to its end.
func (b *bubble) Exchange(method, path, body string, head ...string) exchange {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, gatewayURL+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(head); i += 2 {
		req.Header.Set(head[i], head[i+1])
	}
	res, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	x := exchange{status: res.StatusCode, head: res.Header}
	if x.body, err = io.ReadAll(res.Body); err != nil {
		b.t.Fatalf("%s %s: %v behind %q", method, path, err, x.body)
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		x.frames = framesOf(b.t, x.body)
	}
	return x
}

// framesOf cuts a stream into its events; comments are left out, anything else fails the test.
func framesOf(t *testing.T, body []byte) (out []frame) {
	t.Helper()
	text, ended := bytes.CutSuffix(body, []byte("\n\n"))
	if !ended {
		t.Errorf("the stream does not end with an event: %.200q", body)
	}
	for block := range strings.SplitSeq(string(text), "\n\n") {
		var f frame
		for line := range strings.SplitSeq(block, "\n") {
			field, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "event":
				f.name = value
			case "data":
				f.data = append(f.data, value...)
			case "", "id", "retry":
			default:
				t.Errorf("not a line of an event stream: %q", line)
			}
		}
		if f.data != nil {
			out = append(out, f)
		}
	}
	return out
}

// at walks into JSON: a string is a member, a number an element. It returns nil where there is nothing.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p < 0 {
				p += len(l)
			}
			if p < 0 || p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// number is at for a number; -1 where there is none.
func number(v any, path ...any) float64 {
	if n, ok := at(v, path...).(float64); ok {
		return n
	}
	return -1
}

// text is at for a string.
func text(v any, path ...any) string {
	s, _ := at(v, path...).(string)
	return s
}

func (x exchange) parsed() map[string]any { return frame{data: x.body}.parsed() }

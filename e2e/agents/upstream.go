//go:build agents

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

// What the scripted upstream says, and the word that stands only in the note: an answer that holds it proves that the
// tool was run and its result came back. The sealed reasoning stands before a tool call, in the protocols that have such
// a thing; an agent sends it back with the tool's result, and only the account that sealed it may be shown it.
const (
	greeting = "Good day from the second upstream."
	secret   = "marmot-4711"
	sealed   = "c2VhbGVkIGJ5IHRoZSBzZWNvbmQgdXBzdHJlYW0="
	cameBack = " after its sealed reasoning"
)

// upstream is a model that follows a script: it calls the agent's own tool for reading when it is told to call the tool,
// says what the tool brought, and greets otherwise. It speaks all four protocols.
type upstream struct {
	server  *httptest.Server
	mu      sync.Mutex
	file    string // path of the note
	answers []string
	calls   int
}

func newUpstream() (*upstream, error) {
	u := &upstream{}
	u.server = httptest.NewServer(u)
	return u, nil
}

func (u *upstream) url() string { return u.server.URL }

func (u *upstream) close() { u.server.Close() }

func (u *upstream) reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answers, u.calls = nil, 0
}

func (u *upstream) log() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.answers)
}

func (u *upstream) note(file string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.file = file
}

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var in request
	if err := json.Unmarshal(body, &in); err != nil {
		http.Error(w, `{"error":{"message":"not JSON","type":"invalid_request_error"}}`, http.StatusBadRequest)
		return
	}
	a := u.decide(&in, string(body))
	var events []event
	var whole any
	switch {
	case strings.HasSuffix(r.URL.Path, "/chat/completions"):
		events, whole = a.chat()
	case strings.HasSuffix(r.URL.Path, "/responses"):
		events, whole = a.responses()
	case strings.HasSuffix(r.URL.Path, "/messages"):
		events, whole = a.messages()
	case strings.HasSuffix(r.URL.Path, ":generateContent"), strings.HasSuffix(r.URL.Path, ":streamGenerateContent"):
		in.Stream = strings.HasSuffix(r.URL.Path, ":streamGenerateContent")
		events, whole = a.gemini()
	default:
		http.NotFound(w, r)
		return
	}
	if !in.Stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(whole) // a client that left needs no answer
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		if e.name != "" {
			fmt.Fprintf(w, "event: %s\n", e.name)
		}
		fmt.Fprintf(w, "data: %s\n\n", e.data)
	}
}

// request is what counts of a request, in any of the protocols.
type request struct {
	Stream bool
	Tools  []offered
}

// offered is a tool, in any of the protocols' forms.
type offered struct {
	Name         string
	Parameters   schema
	InputSchema  schema `json:"input_schema"`
	JSONSchema   schema `json:"parametersJsonSchema"`
	Function     *offered
	Declarations []offered `json:"functionDeclarations"`
}

type schema struct {
	Properties map[string]json.RawMessage
	Required   []string
}

// decide says what the answer is.
func (u *upstream) decide(in *request, body string) answer {
	u.mu.Lock()
	defer u.mu.Unlock()
	a := answer{text: greeting, id: fmt.Sprintf("answer%d", len(u.answers)+1)}
	switch {
	case strings.Contains(body, secret):
		a.text = "The note says " + secret + "."
	case strings.Contains(body, "call the tool") && u.calls > 2:
		a.text = "The tool brings nothing."
	case strings.Contains(body, "call the tool"):
		a.tool, a.arguments = choose(in.Tools, u.file)
	}
	said := fmt.Sprintf("%q", a.text)
	if a.tool != "" {
		u.calls++
		said = "tool call " + a.tool
	}
	if strings.Contains(body, sealed) {
		said += cameBack
	}
	u.answers = append(u.answers, said)
	return a
}

// readers are the names under which agents offer to read a file, or to run a command that can.
var readers = []string{"read", "read_file", "exec_command", "shell_command", "shell"}

// choose picks the agent's tool for reading a file and makes up arguments that fit its schema.
func choose(tools []offered, file string) (name, arguments string) {
	all := flatten(tools)
	for _, want := range readers {
		for _, t := range all {
			if strings.ToLower(t.Name) == want {
				return t.Name, t.arguments(file)
			}
		}
	}
	return "", ""
}

func flatten(tools []offered) []offered {
	var all []offered
	for _, t := range tools {
		if t.Function != nil {
			t = *t.Function
		}
		if len(t.Declarations) > 0 {
			all = append(all, flatten(t.Declarations)...)
			continue
		}
		for _, s := range []schema{t.InputSchema, t.JSONSchema} {
			if len(s.Properties) > 0 {
				t.Parameters = s
			}
		}
		all = append(all, t)
	}
	return all
}

func (t offered) arguments(file string) string {
	args := map[string]any{}
	for name := range t.Parameters.Properties {
		switch name {
		case "path", "file_path", "filePath", "absolute_path":
			args[name] = file
		case "cmd":
			args[name] = "cat " + file
		case "command":
			if strings.Contains(string(t.Parameters.Properties[name]), `"array"`) {
				args[name] = []string{"cat", file}
			} else {
				args[name] = "cat " + file
			}
		}
	}
	out, err := json.Marshal(args)
	if err != nil {
		panic(err) // strings can be written
	}
	return string(out)
}

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// perKind is how many calls an SDK makes of each kind: API x streamed or not x gateway.
const perKind = 25

// toolResult is what the client's tool answers.
const toolResult = `{"sky":"clear"}`

// plan is what a script gets.
type plan struct {
	Calls      []call `json:"calls"`
	Lanes      int    `json:"lanes"` // calls at once
	ToolResult string `json:"tool_result"`
}

// call is one thing to do with an SDK. Every generation offers a tool.
type call struct {
	Check   string `json:"check"` // unique name
	Do      string `json:"do"`    // generate | list | model | count | embed
	Base    string `json:"base"`  // base URL as the SDK takes it
	Key     string `json:"key"`
	API     string `json:"api,omitempty"` // chat | compatible | responses | messages | gemini
	Stream  bool   `json:"stream,omitempty"`
	Usage   bool   `json:"usage,omitempty"` // ask for usage in a chat stream
	Model   string `json:"model,omitempty"`
	Prompt  string `json:"prompt,omitempty"`
	Timeout int    `json:"timeout_ms"`

	want want
}

// want is what must come of a call.
type want struct {
	text    string   // whole text; of a stream that breaks: the text that it is the beginning of
	tool    bool     // a tool call first, the text after its result
	models  []string // ids that a list must hold
	vectors int      // how many embeddings must come
	raises  string   // "" = nothing; else a word of classNames
	status  int      // HTTP status of the error; 0 = none
	says    string   // part of the error's message
	broken  bool     // a stream that breaks after some text
}

const patience = 60_000

// series plans perKind calls; every fifth asks for the tool.
func (k sdk) series(ctx context.Context, s sources, root, name, api string, stream bool) ([]call, error) {
	var list []call
	for i := range perKind {
		c := call{Check: fmt.Sprintf("%s/%s/%s/%02d", name, api, mode(stream), i+1), Do: "generate", Base: k.base(root, api), Key: "unused",
			API: api, Stream: stream, Usage: i%2 == 0, Model: "smart", Timeout: patience}
		c.Prompt = "Question " + c.Check
		if c.want.tool = i%5 == 4; c.want.tool {
			c.Model, c.Prompt = "tools", c.Prompt+": call the tool"
		}
		var err error
		if c.want.text, err = s.answer(ctx, "truth", c.Prompt); err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

func mode(stream bool) string {
	if stream {
		return "stream"
	}
	return "whole"
}

// bench are the gateways that one SDK is run against.
type bench struct {
	lab, failing sources
	turns        string // asks lab-a each time, which fails in five ways by turns
	defaults     string // the same with default settings: learns to leave lab-a alone
	fails        string // everything fails
	locked       string // has client keys
	key          string // that it takes
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{lab: startLab(t, "five-ways"), failing: startLab(t, "failing")}
	combos := "combos:\n" + comboYAML("smart", labModel, "lab-a", "lab-b") + comboYAML("tools", toolModel, "lab-a", "lab-b")
	b.turns = startGateway(t, "turns", providerYAML(b.lab, stubborn, "lab-a", "lab-b")+combos)
	b.defaults = startGateway(t, "defaults", providerYAML(b.lab, "", "lab-a", "lab-b")+combos)
	b.fails = startGateway(t, "failing", failingYAML(b.failing))
	var line string
	b.key, line = newKey(t)
	b.locked = startGateway(t, "locked", providerYAML(b.lab, "", "lab-b")+
		"combos:\n"+comboYAML("smart", labModel, "lab-b")+comboYAML("secret", labModel, "lab-b")+line)
	return b
}

func failingYAML(s sources) string {
	var names []string
	var combos strings.Builder
	combos.WriteString("combos:\n")
	for _, kind := range failKinds {
		one, two := kind+"-1", kind+"-2"
		names = append(names, one, two)
		combos.WriteString(comboYAML("all-"+kind, labModel, one, two))
	}
	// A silent source is left after half a second; streamed or not, a request ends within seconds.
	return providerYAML(s, stubborn, names...) + combos.String() +
		"timeouts: {first_content: 500ms, last_chance: 1s, request: 5s}\nwaits: {stall_window: 2s}\nlimits: {attempts: 3}\n"
}

var failKinds = []string{"unauthorized", "limited", "broken", "silent", "toolong", "cut", "inband", "refused"}

// calls is everything that an SDK must get right.
func (b *bench) calls(ctx context.Context, k sdk) ([]call, error) {
	list := b.simple(k)
	for _, gw := range []struct{ name, url string }{{"turns", b.turns}, {"defaults", b.defaults}} {
		for _, api := range k.apis {
			for _, stream := range []bool{false, true} {
				more, err := k.series(ctx, b.lab, gw.url, gw.name, api, stream)
				if err != nil {
					return nil, err
				}
				list = append(list, more...)
			}
		}
	}
	failures, err := b.failures(ctx, k)
	return append(list, failures...), err
}

// simple are the calls around generation: models that do not exist, a gateway with client keys, a gateway that is gone,
// and lists of models where the SDK has them.
func (b *bench) simple(k sdk) []call {
	var list []call
	add := func(api, check, root string, f func(*call)) {
		c := call{Check: check + "/" + api, Do: "generate", API: api, Base: k.base(root, api), Key: "unused", Timeout: patience, Prompt: "hello"}
		f(&c)
		list = append(list, c)
	}
	for _, api := range k.failing() {
		add(api, "model/missing", b.turns, func(c *call) {
			c.Model, c.want = "no-such-model", want{raises: "not_found", status: 404, says: "no-such-model"}
		})
		add(api, "locked/wrong-key", b.locked, func(c *call) {
			c.Model, c.Key, c.want = "smart", "sk-spw-wrong", want{raises: "authentication", status: 401}
		})
		add(api, "locked/other-model", b.locked, func(c *call) {
			c.Model, c.Key, c.want = "secret", b.key, want{raises: "permission", status: 403}
		})
		add(api, "gone", "http://127.0.0.1:1", func(c *call) { c.Model, c.want = "smart", want{raises: "connection"} })
	}
	for _, api := range k.embeds {
		add(api, "embeddings", b.turns, func(c *call) { c.Do, c.Model, c.want.vectors = "embed", "smart", 2 })
	}
	api := k.apis[0]
	if k.counts {
		add(api, "count", b.turns, func(c *call) { c.Do, c.Model = "count", "smart" })
	}
	if !k.lists {
		return list
	}
	add(api, "models/list", b.turns, func(c *call) { c.Do, c.want.models = "list", []string{"smart"} })
	add(api, "models/retrieve", b.turns, func(c *call) { c.Do, c.Model, c.want.models = "model", "smart", []string{"smart"} })
	add(api, "models/missing", b.turns, func(c *call) {
		c.Do, c.Model, c.want = "model", "no-such-model", want{raises: "not_found", status: 404, says: "no-such-model"}
	})
	add(api, "locked/list", b.locked, func(c *call) { c.Do, c.Key, c.want.models = "list", b.key, []string{"smart"} })
	add(api, "locked/list-wrong-key", b.locked, func(c *call) {
		c.Do, c.Key, c.want = "list", "sk-spw-wrong", want{raises: "authentication", status: 401}
	})
	return list
}

// failures are the calls for which nothing is left: each must raise the class that fits.
func (b *bench) failures(ctx context.Context, k sdk) ([]call, error) {
	const prompt = "What remains when everything fails?"
	text, err := b.lab.answer(ctx, "truth", prompt)
	if err != nil {
		return nil, err
	}
	half := want{text: text, broken: true, raises: "in_stream", says: "the answer broke off"}
	table := map[string][2]want{ // whole, stream
		"unauthorized": both(want{raises: "authentication", status: 401, says: "Incorrect API key provided"}),
		"limited":      both(want{raises: "rate_limit", status: 429}),
		"broken":       both(want{raises: "internal", status: 500, says: "The server had an error"}),
		"silent":       both(want{raises: "gateway_timeout", status: 504}),
		"toolong":      both(want{raises: "bad_request", status: 400, says: "maximum context length"}),
		"cut":          {{raises: "bad_gateway", status: 502}, half},
		"inband":       {{raises: "internal", status: 500, says: "The server is overloaded"}, half},
		"refused":      both(want{raises: "bad_gateway", status: 502}),
	}
	var list []call
	for _, kind := range failKinds {
		for _, api := range k.failing() {
			for i, w := range table[kind] {
				if kind == "inband" && i == 0 { // the status is that of the error's type, where it says more than "failed"
					switch api {
					case "messages":
						w.raises, w.status = "overloaded", 529
					case "gemini":
						w.status = 503
					}
				}
				c := call{Check: strings.Join([]string{"failing", kind, api, mode(i == 1)}, "/"), Do: "generate", Base: k.base(b.fails, api),
					Key: "unused", API: api, Stream: i == 1, Model: "all-" + kind, Prompt: prompt, Timeout: patience, want: w}
				list = append(list, c)
				if kind == "silent" { // the client's own patience ends first
					c.Check, c.Timeout, c.want = c.Check+"/impatient", 200, want{raises: "timeout"}
					list = append(list, c)
				}
			}
		}
	}
	return list, nil
}

// failing are the APIs whose errors are judged.
func (k sdk) failing() []string {
	if k.fails != nil {
		return k.fails
	}
	return k.apis
}

func both(w want) [2]want { return [2]want{w, w} }

func (p plan) json() ([]byte, error) { return json.Marshal(p) }

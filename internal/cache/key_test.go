package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"strings"
	"testing"

	"spillway/internal/gateway"
)

func facts() Facts {
	return Facts{Envelope: &gateway.Envelope{Protocol: gateway.OpenAI, Model: "m", Raw: []byte(`{"model":"m"}`)},
		Principal: &gateway.Principal{Key: "dev"}, Header: http.Header{}, Route: []string{"v1", "smart", "a#1", "m"}}
}

// Everything that can change an answer, or whose it is, makes another key; nothing else does.
func TestKeyOf(t *testing.T) {
	base := KeyOf(facts())
	if KeyOf(facts()) != base {
		t.Fatal("the same request has two keys")
	}
	seen := map[Key]string{base: "the request itself"}
	for name, change := range map[string]func(*Facts){
		"another key":       func(f *Facts) { f.Principal.Key = "ops" },
		"no key":            func(f *Facts) { f.Principal.Key = "" },
		"anonymous":         func(f *Facts) { f.Principal.Key, f.Principal.Anonymous = "", true },
		"management":        func(f *Facts) { f.Principal.Management = true },
		"protocol":          func(f *Facts) { f.Envelope.Protocol = gateway.Anthropic },
		"operation":         func(f *Facts) { f.Envelope.Operation = gateway.Embed },
		"stream":            func(f *Facts) { f.Envelope.Stream = true },
		"model of the path": func(f *Facts) { f.Envelope.Model = "n" },
		"a byte":            func(f *Facts) { f.Envelope.Raw = []byte(`{"model":"m" }`) },
		"version":           func(f *Facts) { f.Route[0] = "v2" },
		"combo":             func(f *Facts) { f.Route[1] = "other" },
		"connection":        func(f *Facts) { f.Route[2] = "b#1" },
		"one candidate":     func(f *Facts) { f.Route = f.Route[:2] },
		"moved border":      func(f *Facts) { f.Route[2], f.Route[3] = "a#1m", "" },
		"beta":              func(f *Facts) { f.Header.Set("Anthropic-Beta", "x") },
		"protocol version":  func(f *Facts) { f.Header.Set("Anthropic-Version", "x") },
		"two betas":         func(f *Facts) { f.Header["Anthropic-Beta"] = []string{"x", "y"} },
		"organization":      func(f *Facts) { f.Header.Set("Openai-Organization", "x") },
	} {
		f := facts()
		change(&f)
		k := KeyOf(f)
		if other, ok := seen[k]; ok {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[k] = name
	}
	for _, name := range []string{"Idempotency-Key", "Accept-Encoding", "Authorization", "X-Session-Id", "Cache-Control", "User-Agent"} {
		f := facts()
		f.Header.Set(name, "x")
		if KeyOf(f) != base {
			t.Errorf("%s makes another key", name)
		}
	}
}

func TestEligible(t *testing.T) {
	type c struct {
		protocol gateway.Protocol
		body     string
		want     bool
	}
	for name, c := range map[string]c{
		"plain":                   {gateway.OpenAI, `{"model":"m","temperature":1}`, true},
		"own tools":               {gateway.OpenAI, `{"tools":[{"type":"function","function":{"name":"f"}},{"type":"custom","custom":{}}]}`, true},
		"no tools":                {gateway.OpenAI, `{"tools":null}`, true},
		"empty tools":             {gateway.OpenAI, `{"tools":[]}`, true},
		"search tool":             {gateway.Responses, `{"store":false,"tools":[{"type":"function","name":"f"},{"type":"web_search"}]}`, false},
		"code tool":               {gateway.Responses, `{"store":false,"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]}`, false},
		"tool that says nothing":  {gateway.OpenAI, `{"tools":[{}]}`, false},
		"tools of another form":   {gateway.OpenAI, `{"tools":{"type":"function"}}`, false},
		"search options":          {gateway.OpenAI, `{"web_search_options":{}}`, false},
		"stored":                  {gateway.OpenAI, `{"store":true}`, false},
		"not stored":              {gateway.OpenAI, `{"store":false}`, true},
		"store is null":           {gateway.OpenAI, `{"store":null}`, true},
		"stored, escaped":         {gateway.OpenAI, `{"sto\u0072e":true}`, false},
		"background":              {gateway.Responses, `{"store":false,"background":true}`, false},
		"stored prompt":           {gateway.Responses, `{"store":false,"prompt":{"id":"p"}}`, false},
		"a prompt of text":        {gateway.OpenAI, `{"prompt":"hi"}`, true},
		"store deep in the words": {gateway.OpenAI, `{"messages":[{"role":"user","content":"\"store\": true"}],"metadata":{"store":true}}`, true},
		"plugins":                 {gateway.OpenAI, `{"plugins":[{"id":"web"}]}`, false},
		"no plugins":              {gateway.OpenAI, `{"plugins":[]}`, true},
		"claude tool":             {gateway.Anthropic, `{"tools":[{"name":"f","input_schema":{}}]}`, true},
		"claude search":           {gateway.Anthropic, `{"tools":[{"type":"web_search_20250305","name":"web_search"}]}`, false},
		"claude mcp":              {gateway.Anthropic, `{"mcp_servers":[{"url":"x"}]}`, false},
		"gemini functions":        {gateway.Gemini, `{"tools":[{"functionDeclarations":[]}]}`, true},
		"gemini search":           {gateway.Gemini, `{"tools":[{"functionDeclarations":[]},{"googleSearch":{}}]}`, false},
		"gemini both in one":      {gateway.Gemini, `{"tools":[{"functionDeclarations":[],"codeExecution":{}}]}`, false},
		"gemini cached content":   {gateway.Gemini, `{"cachedContent":"cachedContents/x"}`, false},
		"not an object":           {gateway.OpenAI, `[]`, false},
		"broken":                  {gateway.OpenAI, `{"model":"m"`, false},
	} {
		e := &gateway.Envelope{Protocol: c.protocol, Raw: []byte(c.body), Unstored: c.protocol == gateway.Responses}
		if got := Eligible(e); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	plain := []byte(`{"model":"m"}`)
	for name, e := range map[string]gateway.Envelope{
		"responses that are stored": {Protocol: gateway.Responses},
		"a reference":               {Refs: []gateway.Ref{{ID: "file-1"}}},
		"state":                     {Needs: gateway.NeedStateful},
		"an image":                  {Operation: gateway.MakeImage},
		"sound":                     {Operation: gateway.Speak},
		"a form":                    {Operation: gateway.Transcribe, FormType: "multipart/form-data; boundary=x"},
		"a compaction":              {Protocol: gateway.Responses, Operation: gateway.Compact, Unstored: true},
	} {
		e.Raw = plain
		if Eligible(&e) {
			t.Errorf("%s is kept", name)
		}
	}
	for _, op := range []gateway.Operation{gateway.Complete, gateway.Embed, gateway.BatchEmbed, gateway.Rerank, gateway.Moderate, gateway.CountTokens} {
		if !Eligible(&gateway.Envelope{Operation: op, Raw: plain}) {
			t.Errorf("%s is not kept", op)
		}
	}
}

// What is hashed is gathered in a buffer: no text may be lost or moved where it is full.
func TestKeyOfTextsOfEveryLength(t *testing.T) {
	seen := map[Key]int{}
	for n := range 600 {
		f := facts()
		f.Envelope.Model = strings.Repeat("m", n)
		k := KeyOf(f)
		if other, ok := seen[k]; ok {
			t.Fatalf("a text of %d bytes has the key of one of %d", n, other)
		}
		seen[k] = n
		var want []byte
		text := func(s string) { want = append(binary.AppendUvarint(want, uint64(len(s))), s...) }
		for _, s := range []string{keyFormat, "dev"} {
			text(s)
		}
		want = append(want, 0, byte(gateway.OpenAI), byte(gateway.Generate))
		text(f.Envelope.Model)
		text("")
		want = binary.AppendUvarint(want, uint64(len(f.Route)))
		for _, s := range f.Route {
			text(s)
		}
		want = append(want, make([]byte, len(marks))...)
		text(string(f.Envelope.Raw))
		if k != sha256.Sum256(want) {
			t.Fatalf("a text of %d bytes makes another key than it did", n)
		}
	}
}

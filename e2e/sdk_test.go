package e2e

import (
	"maps"
	"testing"
)

// sdk is what sets an SDK apart from the others.
type sdk struct {
	names     classNames
	apis      []string                             // chat, compatible, responses, messages, gemini
	fails     []string                             // APIs whose errors are judged; nil = all
	base      func(root, api string) string        // the base URL as this SDK takes it
	finish    func(api string) (text, call string) // how it tells the end of a text and of a tool call
	asksUsage bool                                 // usage comes in a chat stream only when the call asks for it
	lists     bool                                 // it can list models
	counts    bool                                 // it can count tokens
	embeds    []string                             // APIs by which it can embed
	noStatus  []int                                // statuses that its error for a call without an answer may carry; nil = none
	inStream  []int                                // statuses that its error for a broken stream may carry; nil = none
}

// classNames are the exception classes of an SDK, by a word of ours.
type classNames map[string]string

func with(n classNames, words ...string) classNames {
	out := maps.Clone(n)
	for i := 0; i < len(words); i += 2 {
		out[words[i]] = words[i+1]
	}
	return out
}

// class is the exception class for a word, which an API may have of its own. Most SDKs have one for all that is the
// server's fault.
func (k sdk) class(word, api string) string {
	for _, w := range []string{word + "/" + api, word} {
		if c, ok := k.names[w]; ok {
			return c
		}
	}
	return k.names["internal"]
}

var (
	// The JavaScript and Python SDKs of OpenAI and Anthropic are made by one generator.
	jsNames = classNames{"authentication": "AuthenticationError", "rate_limit": "RateLimitError", "internal": "InternalServerError",
		"bad_request": "BadRequestError", "not_found": "NotFoundError", "permission": "PermissionDeniedError",
		"connection": "APIConnectionError", "timeout": "APIConnectionTimeoutError", "in_stream": "APIError"}
	pythonNames = with(jsNames, "timeout", "APITimeoutError")

	// The Go SDKs have one error type; its status and the place where it comes say what the classes of the others do.
	goNames = classNames{"authentication": "status 401", "rate_limit": "status 429", "internal": "status 5xx", "bad_request": "status 400",
		"not_found": "status 404", "permission": "status 403", "connection": "connection", "timeout": "deadline", "in_stream": "in stream"}
)

func underV1(root, _ string) string { return root + "/v1" }

func atRoot(root, _ string) string { return root }

// asWritten are the words that stand on the wire.
func asWritten(api string) (text, call string) {
	switch api {
	case "responses":
		return "completed", "completed"
	case "messages":
		return "end_turn", "tool_use"
	case "gemini":
		return "STOP", "STOP"
	}
	return "stop", "tool_calls"
}

func openAI(names classNames) sdk {
	return sdk{names: names, apis: []string{"chat", "responses"}, base: underV1, finish: asWritten, asksUsage: true, lists: true, embeds: []string{"chat"}}
}

func anthropic(names classNames) sdk {
	return sdk{names: names, apis: []string{"messages"}, base: atRoot, finish: asWritten, lists: true, counts: true}
}

// google has errors in streams with the code that the event told.
func google(names classNames) sdk {
	return sdk{names: names, apis: []string{"gemini"}, base: atRoot, finish: asWritten, inStream: []int{502, 503}, lists: true, counts: true, embeds: []string{"gemini"}}
}

func same(class string) classNames {
	out := classNames{}
	for word := range jsNames {
		out[word] = class
	}
	return out
}

func TestOpenAIJavaScript6(t *testing.T) {
	driveNode(t, openAI(jsNames), 20, "openai.mjs", "openai-v6")
}
func TestOpenAIJavaScript7(t *testing.T) {
	driveNode(t, openAI(jsNames), 22, "openai.mjs", "openai-v7")
}
func TestOpenAIPython(t *testing.T) { drivePython(t, openAI(pythonNames), "sdks", "openai_calls.py") }
func TestOpenAIGo(t *testing.T)     { drive(t, openAI(goNames), runGo) }

func TestAnthropicJavaScript(t *testing.T) {
	driveNode(t, anthropic(with(jsNames, "gateway_timeout", "GatewayTimeoutError", "overloaded", "OverloadedError")), 20, "anthropic.mjs", "@anthropic-ai/sdk")
}

func TestAnthropicPython(t *testing.T) {
	k := anthropic(with(pythonNames, "gateway_timeout", "GatewayTimeoutError", "overloaded", "OverloadedError", "in_stream", "APIStatusError"))
	k.inStream = []int{200} // that of the answer which the error came in
	drivePython(t, k, "sdks", "anthropic_calls.py")
}

func TestAnthropicGo1(t *testing.T) { driveProgram(t, anthropic(goNames), "anthropic1") }
func TestAnthropicGo2(t *testing.T) { driveProgram(t, anthropic(goNames), "anthropic2") }

// Google's SDK for JavaScript has one class for everything that has a status.
var genaiNames = with(same("ApiError"), "connection", "TypeError", "timeout", "AbortError")

func TestGenAIJavaScript2(t *testing.T) {
	driveNode(t, google(genaiNames), 20, "genai.mjs", "genai-v2")
}
func TestGenAIJavaScript3(t *testing.T) {
	driveNode(t, google(genaiNames), 22, "genai.mjs", "genai-v3")
}

func TestGenAIPython(t *testing.T) {
	names := with(same("ClientError"), "internal", "ServerError", "in_stream", "ServerError", "connection", "ConnectError", "timeout", "ReadTimeout")
	drivePython(t, google(names), "sdks", "genai_calls.py")
}

func TestGenAIGo(t *testing.T) {
	driveProgram(t, google(with(goNames, "in_stream", "status 5xx")), "genai")
}

// aiSDK is Vercel's: one vocabulary over all protocols, each by the provider package that its users take.
func aiSDK(inStream ...string) sdk {
	return sdk{
		names: with(with(same("APICallError"), "timeout", "TimeoutError"), inStream...),
		apis:  []string{"chat", "compatible", "responses", "messages", "gemini"},
		base: func(root, api string) string {
			if api == "gemini" {
				return root + "/v1beta"
			}
			return root + "/v1"
		},
		finish:   func(string) (text, call string) { return "stop", "tool-calls" },
		embeds:   []string{"chat", "compatible", "gemini"},
		inStream: []int{0, 500, 502, 503, 529}, // some providers make one of the error's type
	}
}

func TestAISDK6(t *testing.T) { // most of its providers hand on the error of a stream as the object that came
	driveNode(t, aiSDK("in_stream", "told", "in_stream/gemini", "APICallError"), 20, "aisdk.mjs", "ai-v6")
}

func TestAISDK7(t *testing.T) {
	driveNode(t, aiSDK("in_stream", "AI_StreamProviderError"), 22, "aisdk.mjs", "ai-v7")
}

// TestLiteLLM takes LiteLLM as a client, over its providers for three protocols. The classes of its errors are its own
// reading of status and message, which differs from protocol to protocol; they are held to the rules for one of them.
func TestLiteLLM(t *testing.T) {
	drivePython(t, sdk{
		names: with(pythonNames, "timeout", "Timeout", "gateway_timeout", "Timeout", "in_stream", "MidStreamFallbackError", "bad_gateway", "BadGatewayError",
			"bad_request", "ContextWindowExceededError", "permission", "APIError", "connection", "InternalServerError"),
		apis:  []string{"chat", "messages", "gemini"},
		fails: []string{"chat"},
		base: func(root, api string) string {
			switch api {
			case "chat":
				return root + "/v1"
			case "gemini":
				return root + "/v1beta"
			}
			return root
		},
		finish:   func(string) (text, call string) { return "stop", "tool_calls" },
		inStream: []int{500},
		noStatus: []int{408, 500}, // it makes one up
	}, "litellm", "litellm_calls.py")
}

func driveNode(t *testing.T, k sdk, major int, file, pkg string) {
	exe := node(t, major)
	drive(t, k, func(t *testing.T, p plan, saw func(seen)) { script(t, "js", p, saw, exe, file, pkg) })
}

func drivePython(t *testing.T, k sdk, packages, file string) {
	exe := python(t, packages)
	drive(t, k, func(t *testing.T, p plan, saw func(seen)) { script(t, "python", p, saw, exe, file) })
}

func driveProgram(t *testing.T, k sdk, name string) {
	exe := program(t, name)
	drive(t, k, func(t *testing.T, p plan, saw func(seen)) { script(t, ".", p, saw, exe) })
}

package verdict

import (
	"regexp"
	"strings"

	"spillway/internal/gateway"
)

// refused looks for the refusal of a feature: a structured code that names a parameter, or a sentence. The outcome is
// Alive, the feature's name is in Quirk; an empty Quirk means that nothing of that kind was found.
func (c *reading) refused() gateway.Outcome {
	switch c.status {
	case 400, 404, 405, 415, 422, 501:
	default:
		if !c.inside || c.status < 500 {
			return gateway.Outcome{}
		}
	}
	if most := c.tooManyTools(); most > 0 {
		return refusedCount(most)
	}
	feature := c.refusedParam()
	if feature == "" {
		feature = c.refusedText()
	}
	if feature == "" {
		return gateway.Outcome{}
	}
	o := outcome(gateway.Alive, gateway.CapabilityRefused)
	o.Quirk = feature
	return o
}

// refusalCodes say that the parameter named beside them is not taken at all, or not with this value.
var refusalCodes = newGlobs("unsupported_parameter|unsupported_value|unknown_parameter|unsupported_param|" +
	"unsupported|unrecognized_parameter|extra_forbidden|tool_use_not_supported|unsupported_feature")

func (c *reading) refusedParam() string {
	if c.wire.param == "" || !c.hasCode(refusalCodes) {
		return ""
	}
	name := c.wire.param
	if end := strings.IndexAny(name, ".["); end > 0 {
		name = name[:end]
	}
	if name == "messages" && strings.Contains(c.wire.param, "role") {
		return "system"
	}
	return features[strings.ToLower(name)]
}

// features maps a parameter of any protocol to the name of the feature that it stands for.
var features = map[string]string{
	"tools": "tools", "tool_choice": "tools", "functions": "tools", "function_call": "tools", "toolconfig": "tools",
	"parallel_tool_calls": "parallel_tool_calls", "response_format": "response_format", "responseschema": "response_format",
	"json_schema": "response_format", "output_format": "response_format", "output_config": "output_config",
	"stream_options": "stream_options", "stream": "stream", "reasoning": "reasoning", "reasoning_effort": "reasoning",
	"thinking": "reasoning", "thinkingconfig": "reasoning", "enable_thinking": "reasoning", "reasoning_split": "reasoning",
	"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "max_tokens": "max_tokens",
	"max_completion_tokens": "max_completion_tokens", "max_output_tokens": "max_completion_tokens", "n": "n", "stop": "stop",
	"logprobs": "logprobs", "top_logprobs": "logprobs", "logit_bias": "logit_bias", "seed": "seed",
	"presence_penalty": "presence_penalty", "frequency_penalty": "frequency_penalty", "cache_control": "cache_control",
	"service_tier": "service_tier", "store": "store", "metadata": "metadata", "user": "user", "verbosity": "verbosity",
	"modalities": "audio", "audio": "audio", "prediction": "prediction", "prompt_cache_key": "prompt_cache_key",
	"safety_identifier": "safety_identifier", "include": "include", "truncation": "truncation", "web_search_options": "web_search",
	"previous_response_id": "previous_response_id", "background": "background", "context_management": "context_management",
}

const (
	notSupport = `(?:does not|doesn't|do not|don't|cannot|can't|not) (?:currently )?(?:support|accept|allow|enable)s?(?:ed)? (?:the )?(?:use of )?["'` + "`" + `]?`
	isRefused  = `["'` + "`" + `]?(?: (?:type|parameter|value|input|inputs|content|is|are|was|were|currently))* (?:not (?:supported|allowed|available|enabled|implemented)|unsupported|unavailable|disabled)`
)

// refusals are sentences of providers, compared with the text that they wrote. Every pattern holds the verb as well as
// the feature's name: the name alone stands in most requests.
// hints are words of which the text must hold one before the slower expression is tried.
var refusals = []struct {
	feature string
	hints   []string
	re      *regexp.Regexp
}{
	{"tools", []string{"tool", "function"}, refusal(notSupport+`(?:tools?\b|tool[-_ ](?:use|calls?|calling|choice)|functions?\b|function[-_ ]calls?(?:ing)?)`,
		`(?:\btools?|tool[-_ ](?:use|calls?|calling|choice)|function[-_ ]call(?:s|ing)?)`+isRefused,
		`endpoints found that support tool use`, `tool choice requires --enable-auto-tool-choice`)},
	{"vision", []string{"image", "vision", "modal", "vlm"}, refusal(notSupport+`(?:image[-_ ]?(?:s|urls?|inputs?|content)?\b|vision\b|multi-?modal)`,
		`(?:\bimages?|image_url|image (?:input|content)s?|vision)`+isRefused, `endpoints found that support image input`,
		`is not a (?:vision|multi-?modal|vlm) model`, "unknown variant `image_url`")},
	{"audio", []string{"audio"}, refusal(notSupport+`audio`, `audio(?: input| content)?`+isRefused, `endpoints found that support (?:input )?audio`)},
	{"response_format", []string{"response", "structured", "json"}, refusal(notSupport+`(?:response[-_ ]format|structured[-_ ]outputs?|json[-_ ]?(?:mode|schema|object)?\b)`,
		`(?:response[-_ ]format|structured[-_ ]outputs?|json[-_ ](?:mode|schema|object))["'`+"`"+`]?(?: of type \S+| '\S+')?`+isRefused)},
	{"prefill", []string{"prefill", "user message", "last message", "final message"}, refusal(notSupport+`(?:assistant )?(?:message |response )?prefill`, `prefill(?:ing|ed)?(?: assistant messages?| of assistant messages?)?`+isRefused,
		`conversation must end with a user message`, `(?:last|final) message (?:must be|must have|should be|should have|cannot be|can't be)[^\n]{0,24}(?:user|assistant)`,
		`prefill(?:ing)?[^\n]{0,24} (?:incompatible|not compatible)`)},
	{"stream_options", []string{"stream_options"}, refusal(`stream_options[^\n]{0,40}(?:not (?:supported|allowed|permitted)|unsupported|unrecognized|unknown|only (?:be )?(?:allowed|defined|set))`,
		`(?:unsupported|unknown|unrecognized|unexpected|invalid)[^\n]{0,24}stream_options`)},
	{"reasoning", []string{"thinking", "reasoning"}, refusal(notSupport+`(?:extended )?(?:thinking|reasoning)`, `(?:thinking|reasoning(?:[-_ ]effort|\.effort)?)`+isRefused)},
	{"parallel_tool_calls", []string{"parallel"}, refusal(notSupport+`parallel[-_ ]tool`, `parallel[-_ ]tool[-_ ]calls?`+isRefused)},
	{"system", []string{"system", "developer"}, refusal(notSupport+`(?:system|developer)[-_ ](?:messages?|roles?|instructions?|prompts?)`,
		`(?:system|developer)(?: (?:message|role|instruction|prompt)s?)?`+isRefused)},
	{"max_tokens", []string{"max_completion_tokens"}, refusal(`use ["'` + "`" + `]?max_completion_tokens["'` + "`" + `]? instead`)},
	{"stream", []string{"stream"}, refusal(notSupport+`stream(?:ing)?\b`, `\bstream(?:ing)?`+isRefused)},
	{"cache_control", []string{"cach"}, refusal(notSupport+`(?:cache_control|prompt caching)`, `cache_control[^\n]{0,24}(?:extra inputs|not (?:supported|permitted))`)},
}

// named finds the parameter in a sentence of the stock form "unsupported parameter: 'x'" or "x: extra inputs are not
// permitted"; the table of features decides whether it is one that targets differ in.
var named = refusal(`(?:unsupported|unknown|unrecognized|unexpected|invalid)(?: request)? (?:parameter|argument|field|property|keyword argument|name)s?(?: supplied)?:? ?["'`+"`"+`(]*([a-z_]+)`,
	`([a-z_]+)(?:\.[a-z_.]+)?: extra (?:inputs|fields)(?: are)? not permitted`,
	`(?:parameter|argument|field):? ["'`+"`"+`]?([a-z_]+)["'`+"`"+`]? is not (?:supported|allowed|permitted)`,
	`["'`+"`"+`]([a-z_]+)["'`+"`"+`] (?:is not supported|is unsupported|does not support)`)

var namedHints = []string{"unsupported", "unknown", "unrecognized", "unexpected", "invalid", "not permitted", "is not ", "does not"}

func holdsAny(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

func refusal(alternatives ...string) *regexp.Regexp {
	return regexp.MustCompile(strings.Join(alternatives, "|"))
}

func (c *reading) refusedText() string {
	p := c.prose
	if len(p.text) < 8 || c.wire.html {
		return ""
	}
	for _, r := range refusals {
		if !holdsAny(p.text, r.hints) {
			continue
		}
		if m := r.re.FindString(p.text); m != "" && !p.inRequest(m) {
			return r.feature
		}
	}
	if !holdsAny(p.text, namedHints) {
		return ""
	}
	if m := named.FindStringSubmatch(p.text); m != nil && !p.inRequest(m[0]) {
		for _, name := range m[1:] {
			if f := features[name]; f != "" {
				return f
			}
		}
	}
	return ""
}

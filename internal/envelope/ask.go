package envelope

import (
	"bytes"

	"spillway/internal/gateway"
)

// Asks reports whether a request uses a feature, by the names under which refusals are known (Outcome.Quirk). It looks at
// the bytes and may say yes too often, never no where the feature's member is there: what hangs on it is an order of
// candidates. It is meant for requests to models that are known to refuse something, not for every one.
func Asks(e *gateway.Envelope, feature string) bool {
	switch feature {
	case "tools":
		return e.Tools > 0 || has(e, `"functions"`)
	case "stream":
		return e.Stream
	case "reasoning":
		return e.Needs.Has(gateway.NeedReasoning)
	case "prefill":
		return prefilled(e)
	}
	if marks, ok := featureMarks[feature]; ok {
		return has(e, marks...)
	}
	return has(e, `"`+feature+`"`)
}

// featureMarks are the members and values that show the use of features which are not members of their own name.
var featureMarks = map[string][]string{
	"vision":                {`"image_url"`, `"input_image"`, `"image"`, `"inlineData"`, `"inline_data"`, `"fileData"`, `"file_data"`},
	"audio":                 {`"input_audio"`, `"audio"`, `"modalities"`},
	"response_format":       {`"response_format"`, `"json_schema"`, `"responseSchema"`, `"responseJsonSchema"`, `"output_format"`},
	"system":                {`"system"`, `"developer"`, `"systemInstruction"`, `"system_instruction"`, `"instructions"`},
	"parallel_tool_calls":   {`"parallel_tool_calls"`, `"disable_parallel_tool_use"`},
	"max_completion_tokens": {`"max_completion_tokens"`, `"max_output_tokens"`},
	"web_search":            {`"web_search`},
}

// has reports whether one of the marks stands in the body. A quote inside a text is escaped, so a text that speaks of a
// member does not hold its mark.
func has(e *gateway.Envelope, marks ...string) bool {
	for _, m := range marks {
		if bytes.Contains(e.Raw, []byte(m)) {
			return true
		}
	}
	return false
}

// prefilled reports whether the last turn of the conversation is the model's own: the answer has to go on from it.
func prefilled(e *gateway.Envelope) bool {
	i := bytes.LastIndex(e.Raw, []byte(`"role"`))
	if i < 0 {
		return false
	}
	rest := bytes.TrimLeft(e.Raw[i+len(`"role"`):], ": \t\r\n")
	return bytes.HasPrefix(rest, []byte(`"assistant"`)) || bytes.HasPrefix(rest, []byte(`"model"`))
}

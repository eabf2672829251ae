package verdict

import (
	"regexp"
	"strconv"
	"strings"

	"spillway/internal/gateway"
)

// TooManyTools is the Quirk of a refusal because of the number of tools.
const TooManyTools = "tool_count"

// toolLimits are sentences that say how many tools are taken. Providers differ in their words, and most say the limit and
// what came in one sentence, so each pattern holds what stands before or behind the limit alone.
var toolLimits = regexp.MustCompile(strings.Join([]string{
	// Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 129 instead.
	`(?:tools|functions)['"` + "`" + `]?: array too long[^\n]{0,60}?maximum length (\d{1,5})`,
	// 'tools' : maximum number of items is 128
	`(?:tools|functions|function_?declarations)['"` + "`" + `]? ?:? ?(?:the )?max(?:imum)? (?:number of )?(?:items|tools|length)(?: allowed)?(?: is|:| of)? ?(\d{1,5})`,
	// tools: List should have at most 128 items after validation, not 129
	`(?:tools|functions|function_?declarations)['"` + "`" + `]?[ :,]{1,3}(?:list|array|tuple)? ?(?:(?:should|must|can|may|has to) )?(?:(?:have|contain|be|hold) )?(?:at most|no more than|up to|fewer than or equal to) (\d{1,5})`,
	// at most 128 tools are supported; cannot have more than 128 tools per request; maximum of 128 functions
	`(?:at most|no more than|more than|up to|max(?:imum)?(?: of| is|:)?|limit(?:ed to| of| is)?|limit:|allows only|only) (\d{1,5}) (?:tools|functions|function[ _]declarations|tool definitions)`,
	// the maximum number of tools is 128; max tools allowed: 128
	`max(?:imum)?(?: allowed)?(?: number)?(?: of)? (?:tools|functions|function[ _]declarations)(?: that can be [a-z]+| allowed| supported| per request)?(?: is|:|=| of)? ?(\d{1,5})`,
	// too many tools: 129 (max 128); number of function declarations exceeds the limit of 512
	`(?:too many (?:tools|functions|function[ _]declarations)|(?:tools|functions|function[ _]declarations)(?: provided| count)?(?: \(?\d+\)?)? (?:exceeds?|is (?:greater|more|larger) than|is above))[^\n]{0,48}?(?:max(?:imum)?|limit|at most|allowed|than)[a-z ]{0,24}[:=(]? ?(\d{1,5})`,
}, "|"))

// toolHints are words of which a text must hold one of each kind before the expression is tried.
var toolHints = [2][]string{{"tools", "functions", "declarations", "tool definitions"}, {"max", "at most", "more than", "limit", "up to", "only ", "allowed"}}

// tooManyTools reads how many tools a model takes from the refusal of a request with more; 0 = it is none.
func (c *reading) tooManyTools() int {
	p := c.prose
	if c.wire.html || !holdsAny(p.text, toolHints[0]) || !holdsAny(p.text, toolHints[1]) {
		return 0
	}
	m := toolLimits.FindStringSubmatch(p.text)
	if m == nil || p.inRequest(m[0]) {
		return 0
	}
	for _, digits := range m[1:] {
		if n, err := strconv.Atoi(digits); err == nil && n > 0 {
			return n
		}
	}
	return 0
}

// refusedCount is the outcome of a request with too many tools: the caller's, but another model may take them.
func refusedCount(most int) gateway.Outcome {
	o := outcome(gateway.Alive, gateway.CapabilityRefused)
	o.Quirk, o.ToolLimit = TooManyTools, most
	return o
}

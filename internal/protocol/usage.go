package protocol

import (
	"spillway/internal/gateway"
	"spillway/internal/protocol/jsonscan"
)

// ReadUsage consumes a usage object in the words of OpenAI chat and responses, with the dialects of compatible
// services, and reports whether there was one. Cached tokens are part of the input, reasoning tokens part of the output.
func ReadUsage(c *jsonscan.Cursor, u *gateway.Usage) bool {
	if !c.Object() {
		return false
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		switch string(key) {
		case "prompt_tokens", "input_tokens":
			grow(&u.Input, c)
		case "completion_tokens", "output_tokens":
			grow(&u.Output, c)
		case "cached_tokens", "prompt_cache_hit_tokens":
			grow(&u.CachedInput, c)
		case "reasoning_tokens":
			grow(&u.Reasoning, c)
		case "prompt_tokens_details", "input_tokens_details":
			readDetail(c, "cached_tokens", &u.CachedInput)
		case "completion_tokens_details", "output_tokens_details":
			readDetail(c, "reasoning_tokens", &u.Reasoning)
		default:
			c.Skip()
		}
	}
	return true
}

func readDetail(c *jsonscan.Cursor, name string, n *int) {
	if !c.Object() {
		return
	}
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		if string(key) == name {
			grow(n, c)
		} else {
			c.Skip()
		}
	}
}

// grow reads a count into n unless n is already larger.
func grow(n *int, c *jsonscan.Cursor) {
	if v, ok := c.Int(); ok && v > *n {
		*n = v
	}
}

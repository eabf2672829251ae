// Package families is the table of the four wire protocols. It exists beside package protocol because the families
// import that one.
package families

import (
	"spillway/internal/gateway"
	"spillway/internal/protocol"
	"spillway/internal/protocol/anthropic"
	"spillway/internal/protocol/gemini"
	"spillway/internal/protocol/openai"
	"spillway/internal/protocol/responses"
)

// For returns the family of p; nil for a value that is no protocol.
func For(p gateway.Protocol) protocol.Family {
	switch p {
	case gateway.OpenAI:
		return openai.Family{}
	case gateway.Responses:
		return responses.Family{}
	case gateway.Anthropic:
		return anthropic.Family{}
	case gateway.Gemini:
		return gemini.Family{}
	}
	return nil
}

package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// gemini is Google's generateContent.
type gemini struct{}

var geminiFinish = [...]string{Stop: "STOP", Length: "MAX_TOKENS", ToolUse: "STOP", Filtered: "SAFETY"}

func rawObject(s string) json.RawMessage { return json.RawMessage(s) }

func (gemini) frame(a *Answer, parts []any, finish string, u *Usage) object {
	c := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if finish != "" {
		c["finishReason"] = finish
	}
	meta := object{"promptTokenCount": a.Call.InputTokens, "totalTokenCount": a.Call.InputTokens}
	if u != nil {
		meta = object{"promptTokenCount": u.Input, "candidatesTokenCount": u.Output, "totalTokenCount": u.Input + u.Output}
	}
	return object{"candidates": []any{c}, "modelVersion": a.Model, "responseId": a.ID, "usageMetadata": meta}
}

// open sends a frame without text, as the service does when it begins to think.
func (g gemini) open(a *Answer) []Event {
	return []Event{event("", g.frame(a, []any{object{"text": ""}}, "", nil))}
}

func (g gemini) token(a *Answer, text string) []Event {
	return []Event{event("", g.frame(a, []any{object{"text": text}}, "", nil))}
}

func (gemini) call(a *Answer) object {
	return object{"functionCall": object{"id": "call_" + a.ID, "name": a.Call.Tools[0].Name, "args": rawObject(a.ToolArg)}}
}

func (g gemini) tool(a *Answer) []Event {
	return []Event{event("", g.frame(a, []any{g.call(a)}, "", nil))}
}

func (g gemini) end(a *Answer, f Finish, u Usage) []Event {
	return []Event{event("", g.frame(a, []any{object{"text": ""}}, geminiFinish[f], &u))}
}

func (gemini) done(*Answer) []Event       { return nil }
func (gemini) ping(*Answer) (Event, bool) { return Event{}, false }

func (g gemini) failed(_ *Answer, f Failure) []Event { return []Event{event("", g.failure(f))} }

func (g gemini) whole(a *Answer, text string, f Finish, u Usage) any {
	parts := []any{}
	switch {
	case f == ToolUse:
		parts = append(parts, g.call(a))
	case text != "":
		parts = append(parts, object{"text": text})
	}
	return g.frame(a, parts, geminiFinish[f], &u)
}

func (gemini) failure(f Failure) any {
	e := object{"code": f.Status, "message": f.Message, "status": googleStatus(f)}
	if f.Retry > 0 {
		e["details"] = []any{object{"@type": "type.googleapis.com/google.rpc.RetryInfo",
			"retryDelay": fmt.Sprintf("%gs", f.Retry.Seconds())}}
	}
	return object{"error": e}
}

// googleStatus is the canonical name that goes with a status.
func googleStatus(f Failure) string {
	if f.Type != "" {
		return f.Type
	}
	switch f.Status {
	case http.StatusBadRequest:
		return "INVALID_ARGUMENT"
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	return "INTERNAL"
}

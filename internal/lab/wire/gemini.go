package wire

import (
	"fmt"
	"net/http"
)

// gemini is Google's generateContent.
type gemini struct{}

var geminiFinish = [...]string{Stop: "STOP", Length: "MAX_TOKENS", ToolUse: "STOP", Filtered: "SAFETY"}

// frame writes one event, or the whole answer; parts writes what the model says in it.
func (gemini) frame(w *writer, a *Answer, finish string, u *Usage, parts func()) {
	w.list("candidates", func() {
		w.object("", func() {
			w.object("content", func() {
				w.list("parts", parts)
				w.text("role", "model")
			})
			if finish != "" {
				w.text("finishReason", finish)
			}
			w.number("index", 0)
		})
	})
	w.text("modelVersion", a.Model)
	w.text("responseId", a.ID)
	w.object("usageMetadata", func() {
		input, output := a.Call.InputTokens, 0
		if u != nil {
			input, output = u.Input, u.Output
			w.number("candidatesTokenCount", int64(output))
		}
		w.number("promptTokenCount", int64(input))
		w.number("totalTokenCount", int64(input+output))
	})
}

// said adds a frame with a text.
func (g gemini) said(a *Answer, text, finish string, u *Usage) {
	a.event("", func(w *writer) { g.frame(w, a, finish, u, func() { g.part(w, text) }) })
}

func (gemini) part(w *writer, text string) {
	w.object("", func() { w.text("text", text) })
}

func (gemini) call(w *writer, a *Answer) {
	w.object("", func() {
		w.object("functionCall", func() {
			w.literal("args", a.ToolArg)
			w.joined("id", "call_", a.ID)
			w.text("name", a.Call.Tools[0].Name)
		})
	})
}

// open sends a frame without text, as the service does when it begins to think.
func (g gemini) open(a *Answer)                       { g.said(a, "", "", nil) }
func (g gemini) token(a *Answer, text string, _ bool) { g.said(a, text, "", nil) }
func (g gemini) end(a *Answer, f Finish, u Usage)     { g.said(a, "", geminiFinish[f], &u) }
func (gemini) done(*Answer)                           {}
func (gemini) ping(*Answer)                           {}

func (g gemini) tool(a *Answer) {
	a.event("", func(w *writer) { g.frame(w, a, "", nil, func() { g.call(w, a) }) })
}

func (g gemini) failed(a *Answer, f Failure) {
	a.event("", func(w *writer) { g.failure(w, f) })
}

func (g gemini) whole(w *writer, a *Answer, text string, f Finish, u Usage) {
	g.frame(w, a, geminiFinish[f], &u, func() {
		switch {
		case f == ToolUse:
			g.call(w, a)
		case text != "":
			g.part(w, text)
		}
	})
}

func (gemini) failure(w *writer, f Failure) {
	w.object("error", func() {
		w.number("code", int64(f.Status))
		if f.Retry > 0 {
			w.list("details", func() {
				w.object("", func() {
					w.text("@type", "type.googleapis.com/google.rpc.RetryInfo")
					w.text("retryDelay", fmt.Sprintf("%gs", f.Retry.Seconds()))
				})
			})
		}
		w.text("message", f.Message)
		w.text("status", googleStatus(f))
	})
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

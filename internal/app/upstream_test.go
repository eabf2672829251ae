package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
)

// Small tools for upstreams of a test's own.

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

func peekBody(r *http.Request) (body []byte, restore func()) {
	body, err := io.ReadAll(r.Body)
	return body, func() {
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err != nil {
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func modelOf(r *http.Request, body []byte) string {
	var in struct {
		Model string `json:"model"`
	}
	if json.Unmarshal(body, &in) == nil && in.Model != "" {
		return in.Model
	}
	_, rest, _ := strings.Cut(r.URL.Path, "/models/")
	model, _, _ := strings.Cut(rest, ":")
	return model
}

func bearer(r *http.Request) string {
	if k, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return k
	}
	if k := r.Header.Get("x-api-key"); k != "" {
		return k
	}
	return r.Header.Get("x-goog-api-key")
}

// sendEvents answers a stream with raw bytes, flushed piece by piece.
func sendEvents(w http.ResponseWriter, pieces ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	for _, p := range pieces {
		_, _ = io.WriteString(w, p)
		_ = rc.Flush()
	}
}

// chunk is one chunk of a chat stream with text.
func chunk(text string) string {
	return fmt.Sprintf("data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", text)
}

// stop ends a chat stream well.
const stop = "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"

// answerJSON answers with a JSON body.
func answerJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// streamed reports whether a chat request asked for a stream. It may be called more than once.
func streamed(r *http.Request) bool {
	body, restore := peekBody(r)
	restore()
	return bytes.Contains(body, []byte(`"stream":true`))
}

package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"spillway/internal/lab"
	"spillway/internal/lab/fault"
)

// brokenWriter is a client's writer that panics at its nth write.
type brokenWriter struct {
	*httptest.ResponseRecorder
	n int
}

func (w *brokenWriter) Write(p []byte) (int, error) {
	if w.n--; w.n <= 0 {
		panic(http.ErrAbortHandler)
	}
	return w.ResponseRecorder.Write(p)
}

// A request whose delivery panics still waits for the run that it leads: the run reads the request's body and writes its
// decision log.
func TestSharedDeliveryPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bubble) {
		b.lenient = true
		b.Source("a", lab.Fault{Kind: fault.Trickle, Interval: time.Second})
		b.Open(providers("a") + combo("a") + sharing)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, gatewayURL+"/v1/chat/completions",
			strings.NewReader(`{"model":"smart","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
		r.Header.Set("Content-Type", "application/json")
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic came through")
				}
			}()
			b.app.Handler().ServeHTTP(&brokenWriter{httptest.NewRecorder(), 3}, r)
		}()
		list := b.Journeys()
		if len(list) != 1 || len(list[0].Attempts) != 1 {
			t.Errorf("the books were closed before the run was over: %+v", list)
		}
	})
}

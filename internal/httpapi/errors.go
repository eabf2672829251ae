package httpapi

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/protocol"
)

// writeError answers with an error in the caller's protocol. A gateway-made error says that it is one.
func writeError(w http.ResponseWriter, f protocol.Family, e *gateway.Error) {
	h := w.Header()
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(e.RetryAfter.Seconds())), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(int64(math.Ceil(float64(e.RetryAfter)/float64(time.Millisecond))), 10))
	}
	source := "gateway"
	if e.Upstream {
		source = "upstream"
	}
	h.Set("X-Spillway-Source", source)
	status, body := f.Error(e)
	contentType := "application/json"
	if e.Verbatim != nil {
		status, body = e.HTTPStatus(), e.Verbatim
		if e.VerbatimType != "" {
			contentType = e.VerbatimType
		}
	}
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that left needs no error
}

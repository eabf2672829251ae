package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"spillway/internal/attempt"
	"spillway/internal/config"
	"spillway/internal/gateway"
)

// body is a request body in memory, counted against limits.buffered_bytes.
type body struct {
	buf     *[]byte
	counted int64
	buffers *attempt.Buffers
}

func (b *body) bytes() []byte { return *b.buf }

// release gives the count back, and the bytes when nobody reads them any more.
func (b *body) release(idle bool) {
	b.buffers.Give(b.counted)
	if idle {
		b.buffers.Put(b.buf)
	}
}

// How long a client may take to send its body: a slow line is fine, a silent one is not.
const (
	bodyIdle  = 60 * time.Second
	firstRead = 8 << 10
)

// read takes in the whole body, once. It is read before anything is forwarded: an upstream's early answer can then not
// cut it short.
func (a *API) read(w http.ResponseWriter, r *http.Request, live *Snapshot) (b body, gerr *gateway.Error) {
	limit := int64(live.Board.Snapshot.Config().Limits.Body)
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		w.Header().Set("Connection", "close")
		return b, &gateway.Error{Code: gateway.UnsupportedMediaType, Message: "the body has the content encoding " + gateway.Quote(e),
			Next: "Send it uncompressed."}
	}
	if r.ContentLength > limit {
		w.Header().Set("Connection", "close")
		return b, tooLarge(limit)
	}
	size := r.ContentLength
	if size < 0 {
		size = firstRead
	}
	b.buffers = a.Buffers
	if !a.Buffers.Take(size) {
		w.Header().Set("Connection", "close")
		return b, overloaded()
	}
	b.counted = size
	b.buf = a.Buffers.Get(int(size) + 1) // one more byte, so that the end is seen without growing
	if gerr := b.fill(w, r, limit); gerr != nil {
		w.Header().Set("Connection", "close")
		b.release(true)
		return b, gerr
	}
	return b, nil
}

func (b *body) fill(w http.ResponseWriter, r *http.Request, limit int64) *gateway.Error {
	rc := http.NewResponseController(w)
	limited := rc.SetReadDeadline(time.Now().Add(bodyIdle)) == nil // not every writer has deadlines
	if limited {
		defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	}
	for first := true; ; first = false {
		buf := *b.buf
		if len(buf) == cap(buf) {
			more := int64(cap(buf))
			if !b.buffers.Take(more) {
				return overloaded()
			}
			b.counted += more
			grown := make([]byte, len(buf), 2*cap(buf))
			copy(grown, buf)
			buf = grown
		}
		if limited && !first {
			_ = rc.SetReadDeadline(time.Now().Add(bodyIdle))
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		*b.buf = buf[:len(buf)+n]
		switch {
		case int64(len(*b.buf)) > limit:
			return tooLarge(limit)
		case err == io.EOF:
			return nil
		case err != nil:
			return brokenBody(err)
		}
	}
}

func brokenBody(err error) *gateway.Error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &gateway.Error{Code: gateway.RequestTimeout, Message: fmt.Sprintf("the body stopped coming for %s", bodyIdle),
			Next: "Send the whole body at once."}
	}
	return &gateway.Error{Code: gateway.InvalidRequest, Message: "the body broke off before its announced end",
		Next: "Send the request again."}
}

func tooLarge(limit int64) *gateway.Error {
	return &gateway.Error{Code: gateway.RequestTooLarge,
		Message: fmt.Sprintf("the body is larger than this gateway takes (%s)", config.Size(limit)),
		Next:    "Send a smaller body, or raise limits.body in the gateway's configuration."}
}

func overloaded() *gateway.Error {
	return &gateway.Error{Code: gateway.Overloaded, RetryAfter: time.Second,
		Message: "the gateway holds as many request bytes as it may (limits.buffered_bytes)",
		Next:    "Try again in a moment."}
}

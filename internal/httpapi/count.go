package httpapi

import (
	"net/http"
	"strconv"

	"spillway/internal/commit"
	"spillway/internal/gateway"
	"spillway/internal/protocol"
)

// uncounted reports whether a request to count tokens failed for the only reason that no upstream counts: none speaks the
// protocol, and those that do have no such call.
func uncounted(e *gateway.Error, j *gateway.Journey) bool {
	d := e.Diagnostics
	if d == nil || len(d.Excluded)+len(j.Attempts) == 0 {
		return false
	}
	for i := range d.Excluded {
		if why := d.Excluded[i].Reason; why != gateway.ProtocolMismatch && why != gateway.ModelLockout {
			return false
		}
	}
	for i := range j.Attempts {
		if j.Attempts[i].Kind != gateway.ModelUnavailable {
			return false
		}
	}
	return true
}

// estimate answers a request to count tokens with a quarter of its bytes, and says that it is an estimate.
func (q *request) estimate(env *gateway.Envelope, door *commit.Door, j *gateway.Journey) bool {
	counter, ok := q.family.(protocol.Counter)
	if !ok || !door.Shut() {
		return false
	}
	body := counter.AppendCount(nil, (len(env.Raw)+2)/4)
	h := q.w.Header()
	q.headers(h, j, nil)
	h["X-Spillway-Attempts"] = []string{strconv.Itoa(len(j.Attempts))}
	h["X-Spillway-Estimated"] = []string{"true"}
	h["Content-Type"] = []string{"application/json"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	j.Status, j.Code, j.Error = http.StatusOK, "", ""
	q.w.WriteHeader(http.StatusOK)
	_, _ = q.w.Write(body) // a client that left needs no count
	return true
}

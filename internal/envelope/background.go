package envelope

import "spillway/internal/gateway"

// foreground is what background: true becomes on its way upstream: the answer is waited for. A response that runs behind
// the request's back could fail without anybody to fail over.
var foreground = []byte("false")

// backgroundEdit makes a request for a background response an ordinary one.
func backgroundEdit(e *gateway.Envelope) ([]byte, gateway.Span) {
	if !e.Background.Set() {
		return nil, gateway.Span{}
	}
	return foreground, e.Background
}

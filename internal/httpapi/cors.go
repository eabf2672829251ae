package httpapi

import (
	"net/http"
	"strings"

	"spillway/internal/auth"
)

// cross lets the pages of allowed_origins read answers. A browser asks first (OPTIONS) whether it may send JSON or a key;
// without this answer an origin in the list would still be locked out. Other origins get no such header: what they may
// send is auth.Guard's business, and they can read nothing.
func (a *API) cross(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		if origin == "" || !auth.OriginAllowed(a.Live().Board.Snapshot, origin) {
			next(w, r)
			return
		}
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", origin)
		h.Add("Vary", "Origin")
		h.Set("Access-Control-Expose-Headers", "*, Retry-After, X-Spillway-Request-Id")
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next(w, r)
			return
		}
		h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" && !strings.ContainsAny(asked, "\r\n") {
			h.Set("Access-Control-Allow-Headers", asked)
		}
		if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
			h.Set("Access-Control-Allow-Private-Network", "true")
		}
		h.Set("Access-Control-Max-Age", "600")
		w.WriteHeader(http.StatusNoContent)
	}
}

package auth

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"spillway/internal/catalog"
	"spillway/internal/config"
	"spillway/internal/gateway"
)

// Guard refuses, while no client keys protect the gateway, every request that a web page could have caused: a page in the
// owner's browser reaches loopback addresses, too, and must not spend the owner's keys. With client keys it allows
// everything; identification decides then.
//
//   - Host must be a loopback name with our port: a page that had its own name resolve to 127.0.0.1 shows its name there.
//   - A body must be JSON: forms can send other types across sites without asking first.
//   - An Origin that is neither ours nor listed in allowed_origins, or a Sec-Fetch-Site of another site, is refused.
func Guard(snap *catalog.Snapshot, r *http.Request) *gateway.Error { return guard(snap, r, false) }

// GuardForm is Guard for calls whose body may be a form with files. A page can send such a form without asking first, but
// not without its Origin, which every browser adds to a POST.
func GuardForm(snap *catalog.Snapshot, r *http.Request) *gateway.Error { return guard(snap, r, true) }

func guard(snap *catalog.Snapshot, r *http.Request, form bool) *gateway.Error {
	if !snap.Keyless() {
		return nil
	}
	cfg := snap.Config()
	if !ownHost(r, cfg.Listen) {
		return refused("The Host header names another machine.",
			"Call the gateway by a loopback address with its own port, or configure client keys.")
	}
	origin := first(r.Header, "Origin")
	listed := origin != "" && slices.Contains(cfg.AllowedOrigins, origin)
	if origin != "" && !listed && !sameOrigin(origin, r) {
		return refused("Requests of web pages are not allowed.", "Add the page's origin to allowed_origins, or configure client keys.")
	}
	if site := first(r.Header, "Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && !listed {
		return refused("Requests of other sites are not allowed.", "Add the page's origin to allowed_origins, or configure client keys.")
	}
	switch {
	case jsonBody(r), form && FormBody(r.Header):
		return nil
	case form:
		return &gateway.Error{Code: gateway.UnsupportedMediaType, Message: "The content type must be multipart/form-data or application/json.",
			Next: "Send one of them, or configure client keys."}
	}
	return &gateway.Error{Code: gateway.UnsupportedMediaType, Message: "The content type must be application/json.",
		Next: "Send content-type: application/json, or configure client keys."}
}

// FormBody reports whether a request says that its body is a form with files.
func FormBody(h http.Header) bool {
	kind, _, _ := strings.Cut(first(h, "Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "multipart/form-data")
}

func refused(message, next string) *gateway.Error {
	return &gateway.Error{Code: gateway.OriginNotAllowed, Message: message, Next: next}
}

// ownHost reports whether Host is a loopback name and names the port that the request came in on.
func ownHost(r *http.Request, listen string) bool {
	host, port := splitHost(r.Host)
	if !loopbackName(host) {
		return false
	}
	if port == "" {
		port = "80"
		if r.TLS != nil {
			port = "443"
		}
	}
	n, err := strconv.ParseUint(port, 10, 16)
	want := ourPort(r, listen)
	return err == nil && (want == 0 || int(n) == want)
}

// ourPort is the port of the connection itself, because a configured port of 0 means any; else the configured one. 0
// means that it is not known.
func ourPort(r *http.Request, listen string) int {
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		return addr.Port
	}
	_, port, _ := net.SplitHostPort(listen)
	n, _ := strconv.Atoi(port) // configuration has checked it
	return n
}

// splitHost splits a Host header; the port may be missing and an IPv6 address is in brackets.
func splitHost(s string) (host, port string) {
	end := strings.LastIndexByte(s, ':')
	if end > strings.LastIndexByte(s, ']') {
		s, port = s[:end], s[end+1:]
	}
	return strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), port
}

func loopbackName(host string) bool {
	if host == "127.0.0.1" || strings.EqualFold(host, "localhost") {
		return true
	}
	return config.Loopback(net.JoinHostPort(host, "1"))
}

// sameOrigin reports whether the origin is our own page: Host was found to be ours before.
func sameOrigin(origin string, r *http.Request) bool {
	scheme, host, ok := strings.Cut(origin, "://")
	want := "http"
	if r.TLS != nil {
		want = "https"
	}
	return ok && scheme == want && strings.EqualFold(host, r.Host)
}

// OriginAllowed reports whether a page of this origin may read answers (CORS).
func OriginAllowed(snap *catalog.Snapshot, origin string) bool {
	return origin != "" && slices.Contains(snap.Config().AllowedOrigins, origin)
}

// jsonBody reports whether a request that may carry a body carries JSON. One without a body needs no type.
func jsonBody(r *http.Request) bool {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
	default:
		return true
	}
	kind := first(r.Header, "Content-Type")
	if kind == "" && r.ContentLength == 0 {
		return true
	}
	kind, _, _ = strings.Cut(kind, ";")
	kind = strings.TrimSpace(kind)
	return strings.EqualFold(kind, "application/json") || len(kind) > 5 && strings.EqualFold(kind[len(kind)-5:], "+json")
}

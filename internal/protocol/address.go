package protocol

import (
	"net/http"
	"strings"

	"spillway/internal/gateway"
)

// JoinURL puts path behind the path of base and query behind its query. base may end in a slash.
func JoinURL(base, path, query string) string {
	base, have, _ := strings.Cut(base, "?")
	out := strings.TrimRight(base, "/") + path
	switch {
	case have != "" && query != "":
		return out + "?" + have + "&" + query
	case have != "" || query != "":
		return out + "?" + have + query
	}
	return out
}

// PathEnds reports whether the path of base ends in the segment suffix, such as "/v1".
func PathEnds(base, suffix string) bool {
	base, _, _ = strings.Cut(base, "?")
	return strings.HasSuffix(strings.TrimRight(base, "/"), suffix)
}

// SetKey sets the header that carries the key: the provider's own one if it has any, else header. The header
// Authorization takes the scheme Bearer. A missing key sets nothing.
func SetKey(h http.Header, c gateway.Candidate, header string, key gateway.Secret) {
	if !key.Set() {
		return
	}
	if own := c.Connection.Provider.AuthHeader; own != "" {
		header = own
	}
	value := key.Reveal()
	if strings.EqualFold(header, "Authorization") {
		value = "Bearer " + value
	}
	h.Set(header, value)
}

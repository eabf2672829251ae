// Package route resolves the model that a request asks for to targets. What a name means is the catalogue's business;
// here it becomes an answer or an error for the client.
package route

import (
	"slices"
	"strings"

	"spillway/internal/catalog"
	"spillway/internal/gateway"
)

// Route is a model resolved.
type Route struct {
	catalog.Match
	// Renamed is set when the caller used an alias: the answer names the model as it was asked for. A combo's answer
	// names the model that served.
	Renamed bool
}

// Resolve finds the targets of a model.
func Resolve(s *catalog.Snapshot, model string) (Route, *gateway.Error) {
	match, ok := s.Resolve(model)
	if !ok {
		return Route{}, &gateway.Error{Code: gateway.ModelNotFound, Param: "model",
			Message: "nothing is configured that serves the model " + gateway.Quote(model),
			Next:    "GET /v1/models lists what is served; provider/model reaches any model of a configured provider."}
	}
	alias := slices.ContainsFunc(match.Path, func(step string) bool { return strings.HasPrefix(step, "alias ") })
	return Route{Match: match, Renamed: alias}, nil
}

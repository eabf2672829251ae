package verdict

import (
	"net/http"

	"spillway/internal/gateway"
)

// narrow takes back what an error proves when something else than generation was asked for. Providers answer 403, 404, 405
// or 501 to calls that they do not have or that a model is not made for; that says nothing about the key, and nothing about
// the caller's request, which another provider may well take. The outcome is then that this model is not to be had for
// this operation. Counting tokens has rates of its own, so they do not keep an account from its work.
func (e *Evidence) narrow(o *gateway.Outcome) {
	if e.Operation == gateway.Generate || e.InStream {
		return
	}
	switch {
	case o.Rule == "" && e.unserved(o):
		o.Kind, o.Scope, o.Reason = gateway.ModelUnavailable, gateway.ScopeModel, gateway.ModelMissing
		o.Structured, o.RetryAfter, o.Hint = false, 0, gateway.HintNone
	case e.Operation == gateway.CountTokens && o.Scope == gateway.ScopeAccount &&
		(o.Kind == gateway.RateLimited || o.Kind == gateway.QuotaExhausted):
		o.Scope = gateway.ScopeModel
	}
}

// unserved reports a status that a provider gives for a call that it does not have.
func (e *Evidence) unserved(o *gateway.Outcome) bool {
	switch o.Status {
	case http.StatusForbidden:
		return o.Kind == gateway.AuthError
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return o.Kind == gateway.Alive
	case http.StatusNotImplemented:
		return o.Kind == gateway.ServiceError
	}
	return false
}

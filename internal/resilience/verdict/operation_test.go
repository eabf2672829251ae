package verdict

import (
	"net/http"
	"testing"

	"spillway/internal/gateway"
)

// TestOperationNarrows: what a provider says to a call that it does not have, or that the model is not made for, is held
// against this model under this operation only; everything else is judged as for a completion.
func TestOperationNarrows(t *testing.T) {
	rules, err := Compile(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const noPath = `{"error":{"message":"Unknown request URL: POST /v1/rerank.","type":"invalid_request_error","code":"unknown_url"}}`
	const notAllowed = `{"error":{"message":"You are not allowed to do this.","type":"invalid_request_error","code":null}}`
	for _, c := range []struct {
		name   string
		op     gateway.Operation
		status int
		body   string
		kind   gateway.Kind
		scope  gateway.Scope
	}{
		{"no such path", gateway.Rerank, 404, noPath, gateway.ModelUnavailable, gateway.ScopeModel},
		{"no such path, plain", gateway.CountTokens, 404, "404 page not found\n", gateway.ModelUnavailable, gateway.ScopeModel},
		{"no such method", gateway.Moderate, 405, "", gateway.ModelUnavailable, gateway.ScopeModel},
		{"not implemented", gateway.Speak, 501, "", gateway.ModelUnavailable, gateway.ScopeModel},
		{"not for this model", gateway.Embed, 403, notAllowed, gateway.ModelUnavailable, gateway.ScopeModel},
		{"the same for chat", gateway.Generate, 403, notAllowed, gateway.AuthError, gateway.ScopeConnection},
		{"no such path for chat", gateway.Generate, 404, noPath, gateway.Alive, gateway.ScopeRequest},
		{"a refused key", gateway.Embed, 401, `{"error":{"message":"Incorrect API key provided."}}`, gateway.AuthError, gateway.ScopeConnection},
		{"a bad request", gateway.Embed, 400, `{"error":{"message":"input is empty"}}`, gateway.Alive, gateway.ScopeRequest},
		{"a broken service", gateway.Embed, 500, "", gateway.ServiceError, gateway.ScopeProvider},
		{"a rate", gateway.Embed, 429, "", gateway.RateLimited, gateway.ScopeAccount},
		{"a rate of counting", gateway.CountTokens, 429, "", gateway.RateLimited, gateway.ScopeModel},
	} {
		o := rules.Judge(evidence(func(e *Evidence) {
			e.Operation, e.Status, e.Body, e.Header = c.op, c.status, []byte(c.body), http.Header{}
		}))
		if o.Kind != c.kind || o.Scope != c.scope {
			t.Errorf("%s: %s %s (%s, rule %q)", c.name, o.Kind, o.Scope, o.Reason, o.Rule)
		}
	}
}

package verdict

import (
	"context"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
)

func expect(t *testing.T, e Evidence, kind gateway.Kind, scope gateway.Scope, status int) gateway.Outcome {
	t.Helper()
	o := builtinRules.Judge(e)
	if o.Kind != kind || o.Scope != scope || o.Status != status {
		t.Errorf("got %v %v %d (rule %q), want %v %v %d", o.Kind, o.Scope, o.Status, o.Rule, kind, scope, status)
	}
	return o
}

func inStream(body string) Evidence {
	e := httpError(200, body)
	e.InStream = true
	return e
}

func TestP2QuotaErrorBehindLifecycleEvents(t *testing.T) {
	expect(t, inStream(`{"type":"error","error":{"code":"insufficient_quota"}}`), gateway.CreditsExhausted, gateway.ScopeAccount, 429)
}

func TestP5OverloadedInsideMessagesStream(t *testing.T) {
	o := expect(t, inStream(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), gateway.ServiceError, gateway.ScopeProvider, 529)
	if o.Reason != gateway.ErrorInStream {
		t.Error(o.Reason)
	}
}

func TestP19RateLimitAsFirstEvent(t *testing.T) {
	expect(t, inStream(`{"error":{"code":"rate_limit_exceeded"}}`), gateway.RateLimited, gateway.ScopeAccount, 429)
}

func TestP24AccountDeactivatedAsBareCode(t *testing.T) {
	e := inStream("")
	e.Code = "account_deactivated"
	if o := expect(t, e, gateway.Banned, gateway.ScopeAccount, 403); !o.Structured {
		t.Error("a structured code is evidence")
	}
}

func TestP27RateLimitsFailOver(t *testing.T) {
	for status, kind := range map[int]gateway.Kind{408: gateway.ServiceError, 425: gateway.RateLimited, 429: gateway.RateLimited} {
		if o := builtinRules.Judge(httpError(status, "")); o.Kind != kind || !o.Failed() {
			t.Errorf("%d: %v", status, o.Kind)
		}
	}
}

func TestP28LongResetIsPassedOn(t *testing.T) {
	o := expect(t, httpError(429, `{"error":{"type":"usage_limit_reached","resets_in_seconds":561635}}`), gateway.QuotaExhausted, gateway.ScopeAccount, 429)
	if o.RetryAfter != 561635*time.Second || o.Hint != gateway.HintStructured {
		t.Errorf("%v from %v", o.RetryAfter, o.Hint)
	}
}

func TestP33WrongPathHurtsNobody(t *testing.T) {
	for _, body := range []string{"", "404 page not found", `{"detail":"Not Found"}`, `<html><body>m1 not found</body></html>`,
		`{"error":{"message":"Invalid URL (POST /v1/m1)","type":"invalid_request_error"}}`, "Cannot POST /v1/m1"} {
		expect(t, httpError(404, body), gateway.Alive, gateway.ScopeRequest, 404)
	}
	expect(t, httpError(400, `{"error":"bad"}`), gateway.Alive, gateway.ScopeRequest, 400)
}

func TestP34ServerErrorsBlameNoKey(t *testing.T) {
	for _, status := range []int{500, 502, 503, 504, 520, 529, 599} {
		expect(t, httpError(status, `{"error":{"message":"your account has been suspended; invalid api key; quota exceeded"}}`), gateway.ServiceError, gateway.ScopeProvider, status)
	}
}

func TestP40OwnErrorsTeachNothing(t *testing.T) {
	expect(t, evidence(func(e *Evidence) { e.HostFault = true }), gateway.LocalError, gateway.ScopeRequest, 0)
}

func TestP63ErrorObjectThenDone(t *testing.T) {
	o := builtinRules.Judge(inStream(`{"error":{"message":"boom"}}`))
	if o.Kind != gateway.ServiceError || o.Status != 502 {
		t.Errorf("%+v", o)
	}
	e := evidence(func(e *Evidence) {
		e.Status, e.NotCompletion, e.Body = 200, true, []byte("data: {\"error\":{\"message\":\"boom\",\"code\":429}}\n\ndata: [DONE]\n\n")
	})
	expect(t, e, gateway.RateLimited, gateway.ScopeAccount, 429)
}

func TestP65EmptyAnswer(t *testing.T) {
	expect(t, evidence(func(e *Evidence) { e.Status, e.Terminal, e.Empty = 200, true, true }), gateway.EmptyOutput, gateway.ScopeModel, 200)
}

func TestP67OpenRouterMidStreamForm(t *testing.T) {
	o := expect(t, inStream(`{"id":"x","object":"chat.completion.chunk","error":{"code":502,"message":"provider_unavailable"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`),
		gateway.ServiceError, gateway.ScopeProvider, 502)
	if o.Message != "provider_unavailable" {
		t.Error(o.Message)
	}
	expect(t, inStream(`{"choices":[{"error":{"code":429,"message":"slow down"},"finish_reason":"error"}]}`), gateway.RateLimited, gateway.ScopeAccount, 429)
}

func TestP68ResponseFailed(t *testing.T) {
	expect(t, inStream(`{"type":"response.failed","response":{"error":{"code":"server_error","message":"x"}}}`), gateway.ServiceError, gateway.ScopeProvider, 500)
}

func TestP70StatusIsKept(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 409, 422, 429, 500, 529} {
		if o := builtinRules.Judge(httpError(status, `{"error":{"message":"no"}}`)); o.Status != status {
			t.Errorf("%d became %d", status, o.Status)
		}
	}
}

func TestP72OverloadKeepsItsCause(t *testing.T) {
	o := expect(t, httpError(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded: wait"}}`), gateway.ServiceError, gateway.ScopeProvider, 529)
	if o.Message != "Overloaded: wait" || o.Type != "overloaded_error" {
		t.Errorf("%+v", o)
	}
}

func TestP73CodesOfResponseFailed(t *testing.T) {
	for code, want := range map[string]struct {
		status int
		kind   gateway.Kind
	}{
		"invalid_prompt":                 {400, gateway.Alive},
		"image_too_large":                {400, gateway.Alive},
		"image_parse_error":              {400, gateway.Alive},
		"image_content_policy_violation": {400, gateway.ContentRefused},
		"unsupported_image_media_type":   {400, gateway.Alive},
		"empty_image_file":               {400, gateway.Alive},
		"failed_to_download_image":       {400, gateway.Alive},
		"vector_store_timeout":           {504, gateway.ServiceError},
		"server_error":                   {500, gateway.ServiceError},
		"rate_limit_exceeded":            {429, gateway.RateLimited},
		"context_length_exceeded":        {400, gateway.Alive},
	} {
		o := builtinRules.Judge(inStream(`{"type":"response.failed","response":{"error":{"code":"` + code + `","message":"x"}}}`))
		if o.Status != want.status || o.Kind != want.kind {
			t.Errorf("%s: %v %d, want %v %d", code, o.Kind, o.Status, want.kind, want.status)
		}
	}
}

func TestP77StatusBeforeType(t *testing.T) {
	expect(t, httpError(404, `{"error":{"message":"The model 'm1' does not exist","type":"invalid_request_error"}}`), gateway.ModelUnavailable, gateway.ScopeModel, 404)
	expect(t, httpError(429, `{"error":{"message":"slow down","type":"invalid_request_error"}}`), gateway.RateLimited, gateway.ScopeAccount, 429)
	expect(t, httpError(503, `{"error":{"message":"busy","type":"invalid_request_error"}}`), gateway.ServiceError, gateway.ScopeProvider, 503)
}

func TestP102KeyInURLNeverShows(t *testing.T) {
	e := evidence(func(e *Evidence) {
		e.Transport = dial(context.DeadlineExceeded)
		e.Phase = PhaseConnect
	})
	e.Candidate.Connection.Credential = gateway.NewCredential("upstream.test", nil)
	if o := builtinRules.Judge(e); strings.Contains(o.Message, "upstream.test") || o.Message == "" {
		t.Error(o.Message)
	}
}

func TestP116OperatorMakesAFourHundredRetryable(t *testing.T) {
	r := mustCompile(t, []Rule{{ID: "overload-as-422", Provider: "p", Status: []StatusRange{{400, 400}, {403, 403}, {422, 422}}, Text: "overload", Kind: new(gateway.ServiceError), Scope: new(gateway.ScopeProvider)}})
	for _, status := range []int{400, 403, 422} {
		if o := r.Judge(httpError(status, `{"error":{"message":"system overload"}}`)); o.Kind != gateway.ServiceError || o.Status != status {
			t.Errorf("%d: %+v", status, o)
		}
	}
}

func TestO4RateLimitIsTheAccounts(t *testing.T) {
	expect(t, httpError(429, ""), gateway.RateLimited, gateway.ScopeAccount, 429)
}

func TestO5ScopeComesFromTheOutcome(t *testing.T) {
	expect(t, httpError(404, `{"error":"model 'm1' not found"}`), gateway.ModelUnavailable, gateway.ScopeModel, 404)
	expect(t, httpError(502, ""), gateway.ServiceError, gateway.ScopeProvider, 502)
}

// Terminal kinds need a status of 401, 402 or 403, or a structured code.
func TestO6WordsAloneAreNoEvidence(t *testing.T) {
	for _, body := range []string{`{"error":{"message":"This organization has been disabled."}}`, `{"error":{"message":"Your credit balance is too low"}}`, "your account has been suspended"} {
		o := builtinRules.Judge(httpError(400, body))
		if o.Structured || o.Kind != gateway.Banned && o.Kind != gateway.CreditsExhausted {
			t.Errorf("%s: %v structured=%v", body, o.Kind, o.Structured)
		}
	}
	if o := builtinRules.Judge(httpError(403, "your account has been suspended")); o.Kind != gateway.Banned || !o.Structured {
		t.Errorf("%+v", o)
	}
}

func TestO11MetricOutranksWording(t *testing.T) {
	body := func(id string) string {
		return `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your current quota, please check your plan and billing details.","details":[
			{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"` + id + `"}]},
			{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"40s"}]}}`
	}
	if o := expect(t, httpError(429, body("GenerateRequestsPerMinutePerProject")), gateway.RateLimited, gateway.ScopeAccount, 429); o.RetryAfter != 40*time.Second {
		t.Error(o.RetryAfter)
	}
	if o := expect(t, httpError(429, body("GenerateRequestsPerDayPerProject")), gateway.QuotaExhausted, gateway.ScopeAccount, 429); o.RetryAfter != 0 {
		t.Errorf("the stock delay of a minute was believed for a day: %v", o.RetryAfter)
	}
	// Quota wording alone is boilerplate on a 429.
	expect(t, httpError(429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details."}}`), gateway.RateLimited, gateway.ScopeAccount, 429)
}

func TestO12ChineseQuota(t *testing.T) {
	expect(t, httpError(429, `{"error":{"message":"已达到每周使用上限"}}`), gateway.QuotaExhausted, gateway.ScopeAccount, 429)
	expect(t, httpError(429, `{"error":{"message":"请求过于频繁"}}`), gateway.RateLimited, gateway.ScopeAccount, 429)
}

func TestO14ContentFilterWithoutContent(t *testing.T) {
	expect(t, evidence(func(e *Evidence) { e.Status, e.Terminal, e.Refused, e.Empty = 200, true, true, true }), gateway.ContentRefused, gateway.ScopeRequest, 200)
}

func TestO16ClientAndSelfAreNotTheUpstream(t *testing.T) {
	expect(t, evidence(func(e *Evidence) { e.ClientGone, e.Transport, e.Status = true, context.Canceled, 200 }), gateway.Canceled, gateway.ScopeRequest, 200)
	expect(t, evidence(func(e *Evidence) { e.HostFault, e.Status, e.Content = true, 200, true }), gateway.LocalError, gateway.ScopeRequest, 200)
	expect(t, evidence(func(e *Evidence) { e.Transport, e.Status = context.Canceled, 200 }), gateway.LocalError, gateway.ScopeRequest, 200)
}

func TestO24RetiredModel(t *testing.T) {
	for _, body := range []string{`{"error":{"message":"models/m1 is no longer available to new users.","status":"NOT_FOUND"}}`, `{"error":{"message":"The model m1 has been deprecated","code":"model_not_found"}}`} {
		if o := expect(t, httpError(404, body), gateway.ModelUnavailable, gateway.ScopeModel, 404); !o.Retired || o.Reason != gateway.ModelRetired {
			t.Errorf("%+v", o)
		}
	}
}

// A protocol family hands over the bare error object and the status that it worked out, 502 when it knew none.
func TestBareErrorObject(t *testing.T) {
	for _, c := range []struct {
		status     int
		body       string
		kind       gateway.Kind
		want       int
		structured bool
	}{
		{529, `{"type":"overloaded_error","message":"Overloaded"}`, gateway.ServiceError, 529, true},
		{502, `{"code":"insufficient_quota","message":"x"}`, gateway.CreditsExhausted, 429, true},
		{502, `{"message":"prompt is too long: 9 tokens"}`, gateway.Alive, 400, false},
		{502, `{"message":"boom"}`, gateway.ServiceError, 502, false},
		{429, `{"code":429,"message":"Provider returned error","metadata":{"raw":"m1 is temporarily rate-limited upstream","headers":{"Retry-After":"9"}}}`, gateway.RateLimited, 429, false},
		// Words alone end no account: the status must not read like evidence either.
		{502, `{"message":"your account has been suspended"}`, gateway.Banned, 400, false},
		{401, `{"type":"authentication_error","message":"no"}`, gateway.AuthError, 401, true},
	} {
		e := inStream(c.body)
		e.Status = c.status
		o := builtinRules.Judge(e)
		if o.Kind != c.kind || o.Status != c.want || o.Structured != c.structured {
			t.Errorf("%d %s: %v %d structured=%v, want %v %d %v", c.status, c.body, o.Kind, o.Status, o.Structured, c.kind, c.want, c.structured)
		}
		if strings.Contains(c.body, "Retry-After") && o.RetryAfter != 9*time.Second {
			t.Errorf("quoted header: %v", o.RetryAfter)
		}
		if o.Kind == gateway.ServiceError && o.Reason != gateway.ErrorInStream {
			t.Errorf("reason %v", o.Reason)
		}
	}
}

// A page comes from an edge or a hosting company; its words are not about the account at the provider.
func TestPagesEndNoAccount(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404} {
		o := builtinRules.Judge(httpError(status, "<html><title>Account has been suspended</title><p>your account has been suspended, out of credits, model not found</html>"))
		if o.Kind != gateway.AuthError && o.Kind != gateway.Alive && o.Kind != gateway.ServiceError || o.Structured {
			t.Errorf("%d: %+v", status, o)
		}
	}
}

// A validation error that repeats the body, and an answer that repeats metadata, are the client's words in fields.
func TestRepeatedFieldsAreNoCodes(t *testing.T) {
	expect(t, httpError(422, `{"detail":[{"type":"missing","loc":["body"],"msg":"Field required","input":{"error":{"code":"account_deactivated"},"retry_after":9}}]}`), gateway.Alive, gateway.ScopeRequest, 422)
	o := expect(t, inStream(`{"type":"response.failed","response":{"error":{"code":"server_error","message":"x"},"metadata":{"code":"account_deactivated","reason":"insufficient_quota","retry_after":"99"}}}`),
		gateway.ServiceError, gateway.ScopeProvider, 500)
	if o.RetryAfter != 0 {
		t.Error(o.RetryAfter)
	}
}

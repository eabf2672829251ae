package verdict

import (
	"slices"
	"time"

	"spillway/internal/gateway"
)

// Builtin returns the built-in rules, in the order in which they are asked, and the built-in restatements. They are
// plain data of the same form as an operator's and may be changed by the caller.
func Builtin() (rules []Rule, restate []Restatement) {
	return slices.Concat(hostRules(), chinaRules(), vendorRules(), relayRules(), accountCodes(), retiredRules(), requestCodes(), textRules(), rateRules()), []Restatement{{
		// Seeds 000, 002, 004: a spent quota is reported as a refusal; a missing right to a model must stay one.
		ID: "agentrouter-quota-misstatus", Provider: "agentrouter*", From: []StatusRange{{403, 403}, {400, 400}}, To: 429,
		TextAny: []string{"额度不足"}, TextNone: []string{"无权访问"}, DefaultRetryAfter: time.Minute,
	}}
}

func on(statuses ...int) []StatusRange {
	out := make([]StatusRange, len(statuses))
	for i, s := range statuses {
		out[i] = StatusRange{s, s}
	}
	return out
}

// callerErrors are the statuses under which a provider reports a fault of the request or of the account; 200 stands for
// errors inside a 200.
func callerErrors() []StatusRange { return []StatusRange{{200, 200}, {400, 499}} }

// vendorRules know one provider each: by the operator's id of it, or by a label of its host name.
func vendorRules() []Rule {
	const (
		zhipu     = "glm|zai|z|zhipu*|bigmodel"
		minimax   = "minimax*|minimaxi"
		dashscope = "qwen|dashscope*|aliyuncs|alibaba*|bailian*"
		opencode  = "opencode*"
		google    = "gemini*|generativelanguage|google*|googleapis|vertex*|antigravity*"
	)
	return []Rule{
		// AgentRouter: seeds 002 and 004, section on restatement.
		{ID: "agentrouter-model-access-denied", Provider: "agentrouter*", Status: on(403), Text: "无权访问",
			Kind: new(gateway.ModelUnavailable), Cooldown: 6 * time.Hour},
		{ID: "agentrouter-user-quota-exhausted", Provider: "agentrouter*", Status: on(429), Text: "额度不足",
			Kind: new(gateway.QuotaExhausted), Scope: new(gateway.ScopeAccount)},

		// OpenCode: reference omniroute.md section 10.
		{ID: "opencode-endpoint-unavailable", Provider: opencode, Status: on(400, 429), Text: "endpoint unavailable|endpoint is unavailable",
			Kind: new(gateway.ModelUnavailable), Cooldown: 5 * time.Minute},
		{ID: "opencode-monthly-quota-resets-in", Provider: opencode, Status: on(429), Text: "monthly usage limit|monthly limit|weekly usage limit",
			Kind: new(gateway.QuotaExhausted), Scope: new(gateway.ScopeAccount)},
		{ID: "opencode-quota-exhausted-headers", Provider: opencode, Status: on(429), Header: HeaderMatch{"X-Ratelimit-Remaining-Requests", `^\s*0\s*$`},
			Kind: new(gateway.QuotaExhausted), Scope: new(gateway.ScopeAccount)},
		{ID: "opencode-quota-exhausted-body", Provider: opencode, Code: "organization_quota_exceeded|account_quota_exceeded|plan_limit_reached|*usagelimiterror",
			Kind: new(gateway.QuotaExhausted), Scope: new(gateway.ScopeAccount)},
		{ID: "opencode-400-model-unavailable", Provider: opencode, Status: on(400), Text: "model is unavailable|model unavailable|model is not available",
			Kind: new(gateway.ModelUnavailable), Cooldown: time.Hour},

		// Zhipu, GLM, Z.ai: numeric codes of their error page.
		{ID: "zhipu-banned", Provider: zhipu, Code: "1112|1121", Kind: new(gateway.Banned)},
		{ID: "zhipu-arrears", Provider: zhipu, Code: "1113", Kind: new(gateway.CreditsExhausted)},
		{ID: "zhipu-key", Provider: zhipu, Code: "1000|1001|1002|1003|1004|1110|1111|1120", Kind: new(gateway.AuthError)},
		{ID: "zhipu-quota", Provider: zhipu, Code: "1304|1308|1309|1310|1316|1317", Kind: new(gateway.QuotaExhausted)},
		{ID: "zhipu-rate", Provider: zhipu, Code: "1302|1303|1313", Kind: new(gateway.RateLimited)},
		{ID: "zhipu-model-busy", Provider: zhipu, Code: "1312", Kind: new(gateway.RateLimited), Scope: new(gateway.ScopeModel)},
		{ID: "zhipu-model", Provider: zhipu, Code: "1211|1220|1311", Kind: new(gateway.ModelUnavailable)},
		{ID: "zhipu-context", Provider: zhipu, Code: "1261", Kind: new(gateway.Alive), Reason: new(gateway.ContextTooLong)},
		{ID: "zhipu-content", Provider: zhipu, Code: "1301", Kind: new(gateway.ContentRefused)},
		{ID: "zhipu-caller", Provider: zhipu, Code: "1210|1212|1213|1214|1215", Kind: new(gateway.Alive)},
		{ID: "zhipu-service", Provider: zhipu, Code: "1230|1231|1234|1300", Kind: new(gateway.ServiceError)},

		// MiniMax: base_resp.status_code, usually inside a 200.
		{ID: "minimax-per-model-quota", Provider: minimax, Header: HeaderMatch{"X-Model-Quota-Remaining", `=\s*0\b`},
			Status: []StatusRange{{400, 499}}, Kind: new(gateway.QuotaExhausted), Scope: new(gateway.ScopeModel)},
		{ID: "minimax-balance", Provider: minimax, Code: "1008", Kind: new(gateway.CreditsExhausted)},
		{ID: "minimax-key", Provider: minimax, Code: "1004|2049", Kind: new(gateway.AuthError)},
		{ID: "minimax-quota", Provider: minimax, Code: "2056", Kind: new(gateway.QuotaExhausted)},
		{ID: "minimax-rate", Provider: minimax, Code: "1002|1039|1041|2045", Kind: new(gateway.RateLimited)},
		{ID: "minimax-model", Provider: minimax, Code: "2061", Kind: new(gateway.ModelUnavailable)},
		{ID: "minimax-content", Provider: minimax, Code: "1026|1027", Kind: new(gateway.ContentRefused)},
		{ID: "minimax-caller", Provider: minimax, Code: "2013", Kind: new(gateway.Alive)},
		{ID: "minimax-service", Provider: minimax, Code: "1000|1001|1013|1024|1033", Kind: new(gateway.ServiceError)},

		// DashScope says "insufficient quota" for a rate as well; only its billing codes mean money.
		{ID: "dashscope-rate", Provider: dashscope, Status: on(200, 429), Code: "insufficient_quota|throttling*|limitrequests|limit_*",
			Kind: new(gateway.RateLimited)},
		{ID: "dashscope-free-tier", Provider: dashscope, Code: "allocationquota.freetieronly", Kind: new(gateway.QuotaExhausted), Scope: new(gateway.ScopeModel)},
		{ID: "dashscope-arrears", Provider: dashscope, Code: "arrearage|prepaidbilloverdue|postpaidbilloverdue", Kind: new(gateway.CreditsExhausted)},
		{ID: "dashscope-model", Provider: dashscope, Code: "modelnotfound|model_not_found|model.accessdenied|accessdenied.unpurchased|commoditynotpurchased|model_not_supported",
			Kind: new(gateway.ModelUnavailable)},

		{ID: "gemini-quota", Provider: google, Status: on(200, 403, 429), Code: "quota_exhausted", Kind: new(gateway.QuotaExhausted)},
		{ID: "gemini-model-capacity", Provider: google, Code: "model_capacity_exhausted", Kind: new(gateway.RateLimited), Scope: new(gateway.ScopeModel)},
		{ID: "gemini-location", Provider: google, Status: on(400, 403), Text: "location is not supported",
			Kind: new(gateway.AuthError), Cooldown: time.Hour},

		// Claude subscriptions name the wall in headers.
		{ID: "anthropic-usage-wall", Provider: "anthropic*|claude*", Status: on(429), Header: HeaderMatch{"Anthropic-Ratelimit-Unified-Status", "^rejected$"},
			HintMin: 15 * time.Minute, Kind: new(gateway.QuotaExhausted)},
		{ID: "anthropic-spend-limit", Provider: "anthropic*|claude*", Status: on(400, 403, 429), Text: "you have reached your specified api usage limits|reached your specified workspace api usage limits",
			Kind: new(gateway.QuotaExhausted)},

		{ID: "openrouter-credit-exhausted-402", Provider: "openrouter*", Status: on(402), Kind: new(gateway.QuotaExhausted), Scope: new(gateway.ScopeAccount), Cooldown: 2 * time.Minute},
		{ID: "openrouter-free-per-day", Provider: "openrouter*", Status: on(200, 429), Text: "free-models-per-day", Kind: new(gateway.QuotaExhausted)},
		{ID: "openrouter-upstream-rate", Provider: "openrouter*", Status: on(200, 429), Text: "rate-limited upstream|rate limited upstream",
			Kind: new(gateway.RateLimited), Scope: new(gateway.ScopeModel)},
		{ID: "openrouter-moderation", Provider: "openrouter*", Status: on(200, 403), Text: "requires moderation|flagged for|was flagged",
			Kind: new(gateway.ContentRefused)},

		// A 402 of DeepSeek always means an empty balance.
		{ID: "deepseek-balance", Provider: "deepseek*", Status: on(402), Kind: new(gateway.CreditsExhausted)},
		{ID: "moonshot-overloaded", Provider: "moonshot*|kimi*", ErrorType: "engine_overloaded_error", Kind: new(gateway.ServiceError)},
		{ID: "moonshot-balance", Provider: "moonshot*|kimi*", ErrorType: "exceeded_current_quota_error", Kind: new(gateway.CreditsExhausted)},
		{ID: "moonshot-rate", Provider: "moonshot*|kimi*", ErrorType: "rate_limit_reached_error", Kind: new(gateway.RateLimited)},
		{ID: "moonshot-key", Provider: "moonshot*|kimi*", ErrorType: "invalid_authentication_error|incorrect_api_key_error", Kind: new(gateway.AuthError)},
		{ID: "groq-flex-capacity", Provider: "groq*", Status: on(498), Kind: new(gateway.RateLimited), Scope: new(gateway.ScopeModel)},
		{ID: "cloudflare-ai-daily-neuron-allocation", Provider: "cloudflare*", Text: "daily free allocation", Kind: new(gateway.QuotaExhausted)},
		{ID: "cloudflare-ai-allocation", Provider: "cloudflare*", Code: "3036|4006", Kind: new(gateway.QuotaExhausted)},
		{ID: "cloudflare-ai-capacity", Provider: "cloudflare*", Code: "3040", Kind: new(gateway.RateLimited), Scope: new(gateway.ScopeModel)},
		{ID: "github-models-per-day", Provider: "github*|models", Status: on(429), Text: "per 86400s|bymodelbyday|userbyday",
			Kind: new(gateway.QuotaExhausted), Scope: new(gateway.ScopeModel)},
		{ID: "mistral-tier-capacity", Provider: "mistral*", Status: on(429), Code: "3505|service_tier_capacity_exceeded",
			Kind: new(gateway.RateLimited), Scope: new(gateway.ScopeModel)},
	}
}

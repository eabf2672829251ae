package verdict

import (
	"time"

	"spillway/internal/gateway"
)

// hostRules know one more provider each. They stand before [vendorRules], as each of them is the more exact one: a text
// or a code that says otherwise than the status, type or code beside it.
func hostRules() []Rule {
	const (
		claude   = "anthropic*|claude*"
		kimi     = "moonshot*|kimi*"
		minimax  = "minimax*|minimaxi"
		opencode = "opencode*"
		google   = "gemini*|generativelanguage|google*|googleapis|vertex*"
	)
	return []Rule{
		// A subscription without the extra for long prompts says 429, though no wait helps.
		{ID: "anthropic-long-context", Provider: claude, Status: on(400, 429), Text: "required for long context requests|long context beta is not yet available",
			Kind: new(gateway.Alive), Reason: new(gateway.ContextTooLong)},
		{ID: "anthropic-client-bound-key", Provider: claude, Status: on(400, 403), Text: "only authorized for use with claude code", Kind: new(gateway.AuthError), Cooldown: time.Hour},

		// The free tier has none of this model: a limit of zero never refills.
		{ID: "gemini-no-free-tier", Provider: google, Status: on(200, 429), Text: `\blimit: 0(?:\D|$)`, Kind: new(gateway.ModelUnavailable), Cooldown: 6 * time.Hour},

		// Zen and Go say 401 for everything that is wrong with an account or a model; the type tells which.
		{ID: "opencode-credits", Provider: opencode, ErrorType: "creditserror", Kind: new(gateway.CreditsExhausted)},
		{ID: "opencode-monthly-limit", Provider: opencode, ErrorType: "monthlylimiterror|userlimiterror", Kind: new(gateway.QuotaExhausted)},
		{ID: "opencode-model", Provider: opencode, ErrorType: "modelerror", Kind: new(gateway.ModelUnavailable)},
		{ID: "opencode-free-tier-client", Provider: opencode, Status: on(400, 401, 403), Text: "can only be used from within opencode", Kind: new(gateway.ModelUnavailable), Cooldown: 6 * time.Hour},

		// MiniMax writes its code into the sentence where the form is another protocol's.
		{ID: "minimax-said-balance", Provider: minimax, Status: callerErrors(), Text: `\(1008\)`, Kind: new(gateway.CreditsExhausted)},
		{ID: "minimax-said-quota", Provider: minimax, Status: callerErrors(), Text: `\(2056\)`, Kind: new(gateway.QuotaExhausted)},
		{ID: "minimax-said-rate", Provider: minimax, Status: callerErrors(), Text: `\((?:1002|1039|1041|2045)\)`, Kind: new(gateway.RateLimited)},
		{ID: "minimax-said-key", Provider: minimax, Status: callerErrors(), Text: `\((?:1004|2049)\)`, Kind: new(gateway.AuthError)},
		{ID: "minimax-said-content", Provider: minimax, Status: callerErrors(), Text: `\((?:1026|1027)\)`, Kind: new(gateway.ContentRefused)},
		{ID: "minimax-said-model", Provider: minimax, Status: callerErrors(), Text: `\(2061\)`, Kind: new(gateway.ModelUnavailable)},

		// Kimi for coding calls a spent billing cycle, and an unknown client, a terminated access.
		{ID: "kimi-billing-cycle", Provider: kimi, ErrorType: "access_terminated_error", Text: "usage limit|billing cycle|quota will be refreshed", Status: callerErrors(), Kind: new(gateway.QuotaExhausted)},
		{ID: "kimi-agents-only", Provider: kimi, ErrorType: "access_terminated_error", Text: "only available for coding agents", Status: callerErrors(), Kind: new(gateway.AuthError), Cooldown: time.Hour},
		{ID: "moonshot-per-day", Provider: kimi, ErrorType: "rate_limit_reached_error", Text: `\btpd\b|per day`, Status: on(200, 429), Kind: new(gateway.QuotaExhausted), IgnoreHintBelow: 10 * time.Minute},

		{ID: "openrouter-key-limit", Provider: "openrouter*", Status: on(200, 402, 403), Text: "key limit exceeded", Kind: new(gateway.QuotaExhausted), Scope: new(gateway.ScopeAccount)},
		{ID: "fireworks-suspended", Provider: "fireworks*", Status: on(412), Code: "precondition_failed", Text: "suspended", Kind: new(gateway.CreditsExhausted)},
		{ID: "together-context", Provider: "together*", Status: on(403, 422), Text: "context length|input token count|max_new_tokens", Kind: new(gateway.Alive), Reason: new(gateway.ContextTooLong)},
		{ID: "xai-content", Provider: "xai*|grok*|x", Status: on(200, 400, 403), Text: "violates usage guidelines", Kind: new(gateway.ContentRefused)},

		// What the model wrote was no tool call or no JSON: another try may do better, and nobody is to blame.
		{ID: "groq-failed-generation", Provider: "groq*", Status: on(200, 400), Code: "tool_use_failed|json_validate_failed", Kind: new(gateway.ServiceError), Count: new(false)},

		// "quota" stands in Cerebras's code for a minute, too; the sentence names the window.
		{ID: "cerebras-per-day", Provider: "cerebras*", Status: on(200, 429), Code: "request_quota_exceeded|token_quota_exceeded", Text: "per day|per month", Kind: new(gateway.QuotaExhausted), Scope: new(gateway.ScopeModel)},
		{ID: "cerebras-rate", Provider: "cerebras*", Status: on(200, 429), Code: "request_quota_exceeded|token_quota_exceeded|queue_exceeded", Kind: new(gateway.RateLimited), Scope: new(gateway.ScopeModel)},

		{ID: "cohere-trial-month", Provider: "cohere*", Status: on(429), Text: "calls / month|calls per month", Kind: new(gateway.QuotaExhausted)},
		{ID: "cohere-unsafe", Provider: "cohere*", Status: on(498), Kind: new(gateway.ContentRefused)},
		{ID: "mistral-model", Provider: "mistral*", ErrorType: "invalid_model", Kind: new(gateway.ModelUnavailable)},
		{ID: "huggingface-monthly", Provider: "huggingface*|hf", Status: on(402), Text: "monthly included credits", Kind: new(gateway.QuotaExhausted)},
		{ID: "deepinfra-busy", Provider: "deepinfra*", Status: on(429), Text: "model busy", Kind: new(gateway.RateLimited), Scope: new(gateway.ScopeModel)},
		{ID: "nvidia-function-missing", Provider: "nvidia*", Status: on(404), Text: "not found for account", Kind: new(gateway.ModelUnavailable)},
		{ID: "nvidia-credits-expired", Provider: "nvidia*", Status: on(402, 403), Text: "cloud credits expired", Kind: new(gateway.CreditsExhausted)},

		{ID: "cloudflare-ai-account-blocked", Provider: "cloudflare*", Code: "3023", Kind: new(gateway.AuthError), Cooldown: time.Hour},
		{ID: "cloudflare-ai-model", Provider: "cloudflare*", Code: "5007|3042|5016|5018|3041", Kind: new(gateway.ModelUnavailable)},
		{ID: "cloudflare-ai-key", Provider: "cloudflare*", Status: on(400, 401, 403), Code: "10000|10001|9109", Kind: new(gateway.AuthError)},
		{ID: "cloudflare-ai-too-large", Provider: "cloudflare*", Code: "3006|5021", Kind: new(gateway.Alive), Reason: new(gateway.ContextTooLong)},
		{ID: "ollama-usage-limit", Provider: "ollama*", Status: on(402, 403, 429), Text: "usage limit", Kind: new(gateway.QuotaExhausted)},
	}
}

// chinaRules know providers whose errors are numbers or names of their own.
func chinaRules() []Rule {
	const (
		siliconflow = "siliconflow*|siliconcloud*"
		volcengine  = "volcengine*|volces|doubao*|ark*"
		dashscope   = "qwen|dashscope*|aliyuncs|alibaba*|bailian*"
		zhipu       = "glm|zai|z|zhipu*|bigmodel"
	)
	return []Rule{
		// The model is busy for everybody; the account is not to blame.
		{ID: "zhipu-model-crowded", Provider: zhipu, Code: "1305", Kind: new(gateway.RateLimited), Scope: new(gateway.ScopeModel)},

		// One code for three things: a spent free tier, a spent plan, and plain throttling, which the vendor's rule has.
		{ID: "dashscope-free-tier-spent", Provider: dashscope, Status: on(200, 403, 429), Text: "free allocated quota exceeded|free tier of the model has been exhausted",
			Kind: new(gateway.QuotaExhausted), Scope: new(gateway.ScopeModel)},
		{ID: "dashscope-plan-spent", Provider: dashscope, Status: on(200, 403, 429), Text: "(?:hour|week|month) allocated quota exceeded", Kind: new(gateway.QuotaExhausted)},

		{ID: "siliconflow-balance", Provider: siliconflow, Code: "30001|30011", Kind: new(gateway.CreditsExhausted)},
		{ID: "siliconflow-model", Provider: siliconflow, Code: "20012|30003", Kind: new(gateway.ModelUnavailable)},
		{ID: "siliconflow-caller", Provider: siliconflow, Code: "20015|20024", Kind: new(gateway.Alive)},

		{ID: "volcengine-overdue", Provider: volcengine, Code: "accountoverdueerror", Kind: new(gateway.CreditsExhausted)},
		{ID: "volcengine-quota", Provider: volcengine, Code: "quotaexceeded|setlimitexceeded", Kind: new(gateway.QuotaExhausted), Scope: new(gateway.ScopeModel)},
		{ID: "volcengine-account-rate", Provider: volcengine, Code: "accountratelimitexceeded", Kind: new(gateway.RateLimited)},
		{ID: "volcengine-rate", Provider: volcengine, Code: "ratelimitexceeded.*|modelaccountrpmratelimitexceeded|modelaccounttpmratelimitexceeded|requestbursttoofast|inflightbatchsizeexceeded",
			Kind: new(gateway.RateLimited), Scope: new(gateway.ScopeModel)},
		{ID: "volcengine-overloaded", Provider: volcengine, Code: "serveroverloaded|modelloadingerror", Kind: new(gateway.ServiceError)},
		{ID: "volcengine-model", Provider: volcengine, Code: "modelnotopen|invalidendpointormodel.*|invalidendpoint.*|accessdenied", Kind: new(gateway.ModelUnavailable)},
		{ID: "volcengine-content", Provider: volcengine, Code: "*sensitivecontentdetected*|*riskdetection*", Kind: new(gateway.ContentRefused)},

		{ID: "stepfun-content", Provider: "stepfun*", Status: on(451), Kind: new(gateway.ContentRefused)},
		{ID: "qianfan-rate", Provider: "qianfan*|baidubce", Code: "rpm_rate_limit_exceeded|tpm_rate_limit_exceeded|preemptible_rate_limit_exceeded|18|336501|336502", Kind: new(gateway.RateLimited), Scope: new(gateway.ScopeModel)},
		{ID: "qianfan-quota", Provider: "qianfan*|baidubce", Code: "17|19|4", Kind: new(gateway.QuotaExhausted)},
	}
}

// relayRules know gateways that may stand behind any address: they are told by their own types and words.
func relayRules() []Rule {
	const newAPI = "new_api_error|one_api_error|shell_api_error|rix_api_error|veloera_error"
	return []Rule{
		// All channels of the group are busy, whatever type stands beside it: not a matter of money.
		{ID: "relay-saturated", Status: on(200, 429), Text: "负载已饱和", Kind: new(gateway.RateLimited), Scope: new(gateway.ScopeModel)},
		{ID: "relay-no-channel", ErrorType: newAPI, Code: "model_not_found|get_channel_failed|channel:no_available_key", Kind: new(gateway.ModelUnavailable), Cooldown: time.Minute},
		{ID: "relay-token-model", ErrorType: newAPI, Status: on(400, 403), Text: "无权访问|无权使用|no access to model|not allowed to use model", Kind: new(gateway.ModelUnavailable), Cooldown: time.Hour},
		// The balance does not cover what this one request might cost; smaller ones may still pass, so it ends nothing.
		{ID: "relay-precharge", ErrorType: newAPI, Status: on(200, 403, 429), Text: "预扣费额度失败|pre-consume", Kind: new(gateway.QuotaExhausted), Cooldown: 2 * time.Minute},
		{ID: "relay-token-spent", ErrorType: newAPI, Status: on(200, 401, 403, 429), Text: "额度已用尽|额度不足|quota is not enough|quota exhausted|余额不足", Kind: new(gateway.CreditsExhausted)},
		{ID: "relay-token-refused", ErrorType: newAPI, Status: on(400, 401, 403), Text: "无效的令牌|令牌已过期|令牌状态不可用|未提供令牌|不在令牌允许访问的列表|invalid token|token expired", Kind: new(gateway.AuthError)},
		{ID: "relay-user-banned", ErrorType: newAPI, Status: on(401, 403), Text: "用户已被封禁|user has been banned", Kind: new(gateway.Banned)},
		{ID: "relay-sensitive", ErrorType: newAPI, Code: "sensitive_words_detected|prompt_blocked", Kind: new(gateway.ContentRefused)},

		// LiteLLM as an upstream. Its own keys and deployments are behind it: our key is fine.
		{ID: "litellm-budget", Status: on(400, 401, 403, 429), ErrorType: "budget_exceeded|token_budget_exceeded", Kind: new(gateway.QuotaExhausted)},
		{ID: "litellm-budget-said", Status: on(400, 429), Text: "budget has been exceeded! current cost", Kind: new(gateway.QuotaExhausted)},
		{ID: "litellm-model-access", ErrorType: "key_model_access_denied|team_model_access_denied|user_model_access_denied|org_model_access_denied|project_model_access_denied", Kind: new(gateway.ModelUnavailable)},
		{ID: "litellm-no-deployments", Status: on(200, 429), Text: "no deployments available for selected model", Kind: new(gateway.RateLimited), Scope: new(gateway.ScopeModel)},
		{ID: "litellm-upstream-key", Status: on(401, 403), Text: `litellm\.(?:authenticationerror|permissiondeniederror)`, Kind: new(gateway.ModelUnavailable), Cooldown: 5 * time.Minute},
		{ID: "litellm-context", Status: on(200, 400), Text: "contextwindowexceedederror", Kind: new(gateway.Alive), Reason: new(gateway.ContextTooLong)},
		{ID: "litellm-content", Status: on(200, 400), Text: "contentpolicyviolationerror", Kind: new(gateway.ContentRefused)},

		// A model that a server on the owner's machine has put away is back once it is loaded again.
		{ID: "local-model-unloaded", Class: new(gateway.Local), Status: on(200, 400, 404), Text: "model is unloaded|model unloaded|no models loaded|failed to load model", Kind: new(gateway.ModelUnavailable), Cooldown: 15 * time.Second},
	}
}

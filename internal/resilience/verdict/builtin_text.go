package verdict

import (
	"time"

	"spillway/internal/gateway"
)

// textRules read wording, the weakest evidence. They name the statuses under which providers were seen to use it, and
// no 5xx is among them: a broken service's prose says nothing about the account. A text alone never makes an outcome
// Structured, so it cannot end an account without a status that agrees.
func textRules() []Rule {
	return []Rule{
		{ID: "text-context", Status: []StatusRange{{200, 200}, {400, 400}, {413, 413}, {422, 422}}, Text: contextWords,
			Kind: new(gateway.Alive), Reason: new(gateway.ContextTooLong)},

		{ID: "text-suspended-for-billing", Status: on(400, 402, 403, 429), TextNone: Patterns{"rate limit"},
			Text: `suspended[^\n]{0,60}(?:insufficient balance|spending limit|billing|invoice|payment|overdue)|(?:spending limit|billing|invoice|payment|overdue)[^\n]{0,60}suspended`,
			Kind: new(gateway.CreditsExhausted)},
		{ID: "text-banned", Status: on(200, 400, 401, 403), Text: banWords, Kind: new(gateway.Banned)},
		{ID: "text-content", Status: on(200, 400, 403, 422, 451), Text: contentWords, Kind: new(gateway.ContentRefused)},
		{ID: "text-request-not-allowed", Status: on(403), Text: "request not allowed", Kind: new(gateway.RequestRejected)},
		{ID: "text-wrong-route", Status: on(403), Text: "not authorized for this route", Kind: new(gateway.Alive)},

		{ID: "text-model-access", Status: on(400, 401, 403, 404), Text: accessWords, TextNone: Patterns{objectWords}, Kind: new(gateway.ModelUnavailable)},
		{ID: "text-model-missing", Status: on(200, 400, 404, 410, 422), Text: missingWords, TextNone: Patterns{objectWords}, Kind: new(gateway.ModelUnavailable)},
		{ID: "status-not-found-names-model", Status: on(404, 410), NamesModel: true, TextNone: Patterns{objectWords + "|" + pathWords + "|" + refusalWords}, Kind: new(gateway.ModelUnavailable)},

		{ID: "text-key", Status: on(400), Text: "api key not valid|invalid api key|incorrect api key|api key expired|invalid x-api-key|api key is invalid|invalid api-key",
			Kind: new(gateway.AuthError)},
		{ID: "text-credits", Status: on(400, 403), Text: creditWords, Kind: new(gateway.CreditsExhausted)},

		// On a 429 quota wording is boilerplate; it is believed with a hint that is long enough to be a quota's, or from a
		// subscription, whose quota is the only limit it has words for.
		{ID: "text-quota-with-long-reset", Status: on(200, 403, 429), Text: quotaWords, HintMin: time.Hour, Kind: new(gateway.QuotaExhausted)},
		{ID: "text-quota-of-subscription", Status: on(403, 429), Class: new(gateway.OAuth), Text: windowWords, TextNone: Patterns{"per minute|per-minute|per second"},
			Kind: new(gateway.QuotaExhausted)},
		// Chinese providers name the spent thing itself (O12); a short wait beside it is a rate.
		{ID: "text-quota-chinese-short", Status: on(200, 403, 429), Text: chineseQuota, HintMax: 10 * time.Minute, Kind: new(gateway.RateLimited)},
		{ID: "text-quota-chinese", Status: on(200, 403, 429), Text: chineseQuota, Kind: new(gateway.QuotaExhausted)},
		{ID: "text-credits-chinese", Status: on(200, 402, 403, 429), Text: "余额不足|账户已欠费|已欠费|余额已用完", Kind: new(gateway.CreditsExhausted)},
	}
}

// retiredRules come before the codes for a missing model: a retired one often carries the same code.
func retiredRules() []Rule {
	return []Rule{
		{ID: "text-model-retired", Status: on(200, 400, 403, 404, 410), NamesModel: true, TextNone: Patterns{pathWords},
			Text: `\{model\}\W{0,3}(?:has been|have been|is|was|are)?\s?(?:being )?(?:deprecated|retired|discontinued|decommissioned|sunset|no longer (?:available|supported|offered|served)|shut ?down)`,
			Kind: new(gateway.ModelUnavailable), Retired: true},
		{ID: "text-this-model-retired", Status: on(200, 400, 403, 404, 410), Text: retiredWords,
			Kind: new(gateway.ModelUnavailable), Retired: true},
	}
}

const (
	contextWords = "maximum context length|context length exceeded|context_length_exceeded|exceeds the context window|context window exceeds|exceeds context window|context window of this model|" +
		"exceeds the maximum context|exceeds model's maximum context|maximum context size|exceeds the available context size|exceed context limit|exceeds the context length|longer than the model's context length|" +
		"longer than the maximum model length|prompt is too long|prompt too long|input is too long|input too long|too many tokens|too many input tokens|exceeds the maximum number of tokens|exceeds the maximum number of input tokens|" +
		"input token count exceeds|input token count \\(\\d+\\)|maximum prompt length|reduce the length of the messages|reduce the length of your prompt|request too large for model|" +
		"range of input length should be|prompt token count of \\d+ exceeds|input tokens exceeds|input tokens exceed|tokens exceed the configured limit|max_new_tokens` must be|loaded with context length of only|context the overflows|超过最大长度|输入过长|上下文长度|上下文超|超出最大"

	contentWords = "content policy|content_policy|content management policy|content filtering policy|content filter|our safety system|safety system|usage policies|usage policy|" +
		"flagged as potentially|flagged by moderation|was flagged|has been flagged|flagged for|prohibited content|inappropriate content|content exists risk|considered high risk|blocked by safety|" +
		"violates our|violate our|敏感内容|不安全|内容安全|违规内容|违法违规|敏感词|风险控制"

	// banWords come from public reports of what providers write when they close an account.
	banWords = "account has been deactivated|account has been disabled|account has been suspended|account has been banned|account has been terminated|account is deactivated|account is suspended|account is disabled|" +
		"account_deactivated|this organization has been disabled|organization has been disabled|service has been disabled in this account|your access has been terminated|账户已被锁定|账号已被锁定|账号已被封禁|账户已被封禁|账号已被禁用"

	retiredWords = "this model has been deprecated|this model is deprecated|model has been deprecated|model has been retired|model has been discontinued|model has been decommissioned|model is no longer available|model is no longer supported|" +
		"model was retired|model has reached its end of life|model has reached end of life|model is end of life|reached its end-of-life|reached its end of life|model has been shut down|模型已下线|模型已停用|模型已弃用"

	accessWords = "does not have access to model|do not have access to model|don't have access to model|does not have access to the model|not have access to the requested model|do not have access to it|no access to model|" +
		"not have access to \\{model\\}|not have access to (?:the )?(?:model )?[`'\"]?\\{model\\}|not allowed to access model|not allowed to use (?:this |the )?model|not entitled to (?:this |the )?model|model access is denied|model access denied|" +
		"not authorized to (?:access|use) (?:this |the )?model|team not allowed to access model|key not allowed to access model|have access to the model with the specified model id|无权访问模型|无权访问该模型|没有该模型的权限|" +
		"(?:plan|subscription)[^\\n]{0,40}(?:does not include|doesn't include)[^\\n]{0,24}model|model is not supported when using"

	missingWords = "model not found|model_not_found|model not exist|model does not exist|no such model|unknown model|model is not found|model doesn't exist|is not a valid model|invalid model name|unsupported model|" +
		"the requested model is not|requested model does not|model identifier is invalid|no endpoints found for|no endpoints found matching|no allowed providers are available|not found for api version|模型不存在|模型未找到|" +
		"model [`'\"]?\\{model\\}[`'\"]? (?:is )?(?:not|unknown|does not|doesn't|was not)"

	// objectWords mean a stored object: the request refers to something that this account does not have.
	objectWords = "previous response|previous_response|response with id|conversation|thread with|vector store|vector_store|container|cachedcontent|cached content|batch with|batch not|file with id|files/|no such file|item with id|assistant with id|no assistant"

	// pathWords mean that the path was wrong, which is nobody's health.
	pathWords = "cannot post|cannot get|route post|route get|no route|requested url|unknown path|unknown url|unknown endpoint|unknown request url|invalid url|page not found|/v1/|/v1beta/|/chat/completions"

	refusalWords = "that support|support tool use|does not support"

	creditWords = "credit balance is too low|credits exhausted|out of credits|insufficient credits|insufficient credit|insufficient balance|insufficient account balance|insufficient funds|no credits remaining|" +
		"doesn't have any credits|does not have any credits|used all available credits|reached its monthly spending limit|used all available credits or reached|exhausted your credits|please add credits"

	quotaWords = "quota|usage limit|daily limit|weekly limit|monthly limit|hour limit|per day|limit for today|tokens per day|requests per day|tpd|rpd|free tier|plan limit|limit will reset|session limit"

	windowWords = "usage limit|weekly limit|daily limit|monthly limit|session limit|5-hour limit|hour limit|daily quota|weekly quota|monthly quota|today's quota|individual quota reached|enable overages|exhausted your capacity"

	chineseQuota = "使用上限|调用上限|额度已用尽|额度已用完|额度已耗尽|配额已用尽|配额已耗尽|配额已用完|限额将在|额度将在|每日限额|每日配额|当日配额|套餐已用完|套餐额度"
)

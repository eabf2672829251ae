package verdict

import (
	"time"

	"spillway/internal/gateway"
)

// accountCodes read structured codes about the account that mean the same wherever they occur. A code is the strongest
// evidence there is, so these hold for any status, except where one is given.
func accountCodes() []Rule {
	return []Rule{
		// More tokens in one request than the account may spend in a minute: no wait helps, a larger account does.
		{ID: "code-request-over-rate", Status: on(200, 413, 429), Text: "request too large for", Kind: new(gateway.Alive), Reason: new(gateway.ContextTooLong)},

		// Google names the metric, which outranks the wording: that is the same for a minute and for a day (O11). The delay
		// that comes with a spent day is the stock one of a minute, so only a long one is believed.
		{ID: "code-quota-per-day-and-model", Status: on(200, 403, 429), Code: "*perday*permodel*|*permodel*perday*", Kind: new(gateway.QuotaExhausted),
			Scope: new(gateway.ScopeModel), IgnoreHintBelow: time.Hour},
		{ID: "code-quota-per-day", Status: on(200, 403, 429), Code: "*perday*", Kind: new(gateway.QuotaExhausted), IgnoreHintBelow: time.Hour},
		{ID: "code-rate-per-minute-and-model", Status: on(200, 429), Code: "*perminute*permodel*|*permodel*perminute*", Kind: new(gateway.RateLimited),
			Scope: new(gateway.ScopeModel)},
		{ID: "code-rate-per-minute", Status: on(200, 429), Code: "*perminute*", Kind: new(gateway.RateLimited)},

		// An own short reset beside a billing code means that it is a rate after all.
		{ID: "code-quota-with-short-reset", Status: on(200, 429), Code: "insufficient_quota|quota_exceeded", HintMax: time.Hour,
			Kind: new(gateway.RateLimited)},

		{ID: "code-banned", Code: "account_deactivated|account_disabled|account_suspended|account_banned|account_terminated|user_banned|user_deactivated|" +
			"organization_disabled|organization_deactivated|organization_restricted|deactivated_workspace|workspace_deactivated|consumer_suspended|access_terminated|access_terminated_error",
			Kind: new(gateway.Banned)},
		{ID: "code-credits", Code: "insufficient_quota|billing_hard_limit_reached|billing_not_active|billing_error|billing_disabled|insufficient_credits|" +
			"insufficient_user_quota|insufficient_token_quota|pre_consume_token_quota_failed|insufficient_balance|insufficient_funds|credit_balance_too_low|credits_exhausted|out_of_credits|credit_limit|credit_limit_reached|payment_required|no_credits|arrearage",
			Kind: new(gateway.CreditsExhausted)},
		{ID: "code-quota", Code: "usage_limit_reached|usage_limit_exceeded|usage_not_included|quota_exceeded|quota_exhausted|daily_limit_exceeded|monthly_limit_exceeded|" +
			"organization_quota_exceeded|account_quota_exceeded|plan_limit_reached|servicequotaexceededexception|free_tier_exhausted",
			Kind: new(gateway.QuotaExhausted)},
		{ID: "code-quota-day-bucket", Status: on(429), Header: HeaderMatch{"X-Ratelimit-Remaining-Requests-Day", `^\s*0\s*$`},
			Kind: new(gateway.QuotaExhausted)},
		{ID: "code-quota-day-tokens", Status: on(429), Header: HeaderMatch{"X-Ratelimit-Remaining-Tokens-Day", `^\s*0\s*$`},
			Kind: new(gateway.QuotaExhausted)},

		{ID: "code-region", Code: "unsupported_country_region_territory|unsupported_location|user_location_invalid",
			Kind: new(gateway.AuthError), Cooldown: time.Hour},
		{ID: "code-key", Code: "invalid_api_key|incorrect_api_key|invalid_key|expired_api_key|api_key_expired|api_key_invalid|api_key_disabled|api_key_revoked|invalidapikey|" +
			"invalid_token|token_expired|token_invalidated|token_revoked|access_token_expired|access_token_invalid|access_token_type_unsupported|api_key_service_blocked|api_key_http_referrer_blocked|" +
			"api_key_ip_address_blocked|service_disabled|unrecognizedclientexception|expiredtokenexception|invalid_organization|invalid_authentication",
			Kind: new(gateway.AuthError)},
	}
}

// requestCodes read structured codes about the request and the model it asks for.
func requestCodes() []Rule {
	return []Rule{
		{ID: "code-model-retired", Code: "model_decommissioned|model_deprecated|model_retired|model_end_of_life|deprecated_model",
			Kind: new(gateway.ModelUnavailable), Retired: true},
		{ID: "code-model", Code: "model_not_found|model_not_exist|model_not_supported|model_not_available|unknown_model|invalid_model|unsupported_model|deploymentnotfound|deployment_not_found|" +
			"model_terms_required|model_permission_blocked_org|model_permission_blocked_project|model_access_denied|modelnotfound|model_not_allowed|operationnotsupported",
			Kind: new(gateway.ModelUnavailable)},

		{ID: "code-context", Code: "context_length_exceeded|context_window_exceeded|context_too_long|prompt_too_long|exceed_context_size_error|model_max_prompt_tokens_exceeded|" +
			"input_too_long|max_context_length_exceeded|tokens_limit_reached|request_too_large|token_limit_exceeded|content_too_large",
			Kind: new(gateway.Alive), Reason: new(gateway.ContextTooLong)},
		{ID: "code-content", Code: "content_policy_violation|content_policy|content_filter|content_filtered|contentfilter|responsibleaipolicyviolation|image_content_policy_violation|" +
			"moderation_blocked|safety|prohibited_content|blocked_by_safety|data_inspection_failed|datainspectionfailed|bio_policy|cyber_policy|sensitive_content|content_moderation",
			Kind: new(gateway.ContentRefused)},

		// In-stream and in-body codes of the caller's making (P73), whatever status they come with.
		{ID: "code-caller", Code: "invalid_prompt|invalid_image|invalid_image_format|invalid_image_url|invalid_image_mode|invalid_base64_image|image_too_large|image_too_small|" +
			"image_parse_error|image_file_too_large|image_file_not_found|unsupported_image_media_type|empty_image_file|failed_to_download_image|" +
			"previous_response_not_found|invalid_encrypted_content|string_above_max_length|missing_required_parameter",
			Kind: new(gateway.Alive)},
	}
}

// rateRules come last: what a text says about a long wait or a request that is too large outranks a plain "too fast".
func rateRules() []Rule {
	return []Rule{
		{ID: "code-overloaded", Status: []StatusRange{{200, 200}, {400, 599}}, Code: "overloaded_error|engine_overloaded|engine_overloaded_error|server_overloaded|server_is_overloaded|model_overloaded|overloaded|slow_down|provider_unavailable|vector_store_timeout",
			Kind: new(gateway.ServiceError)},
		{ID: "code-rate", Status: callerErrors(), Code: "rate_limit_exceeded|rate_limit_error|rate_limit_reached|ratelimitreached|too_many_requests|throttlingexception|throttling|modelnotreadyexception|requests_rate_limited|resource_exhausted|ratelimitexceeded|userratelimitexceeded|concurrency_limit_exceeded",
			Kind: new(gateway.RateLimited)},
		{ID: "code-bedrock-model-fault", Code: "modelerrorexception|modelstreamerrorexception|modeltimeoutexception", Kind: new(gateway.ServiceError)},
	}
}

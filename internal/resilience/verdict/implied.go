package verdict

import "spillway/internal/gateway"

// implied is the status that an error inside a 200 stands for: a status written in it, else one of its codes. Not
// known, it is 502 until the kind says more.
func (w *wire) implied() (status int, known bool) {
	if w.status != 0 {
		return w.status, true
	}
	for _, code := range w.codes {
		if s, ok := impliedStatus[code]; ok {
			return s, true
		}
	}
	return unknownStatus, false
}

// kindStatus is the status of an error inside a 200 that gives none, once its kind is known from a rule.
var kindStatus = [gateway.NumKinds]int{
	gateway.Alive: 400, gateway.ContentRefused: 400, gateway.RateLimited: 429, gateway.QuotaExhausted: 429,
	gateway.CreditsExhausted: 402, gateway.AuthError: 401, gateway.RequestRejected: 403, gateway.Banned: 403,
	gateway.ModelUnavailable: 404,
}

// impliedStatus gives structured codes and types the HTTP status that the same error has outside a stream. Sources: the
// error pages of the OpenAI, Anthropic and Google APIs, google.rpc.Code, and public reports (P73).
var impliedStatus = map[string]int{
	// Anthropic types
	"invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
	"not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504,
	"overloaded_error": 529,

	// google.rpc.Code
	"invalid_argument": 400, "failed_precondition": 400, "out_of_range": 400, "unauthenticated": 401,
	"permission_denied": 403, "not_found": 404, "aborted": 409, "already_exists": 409, "resource_exhausted": 429,
	"cancelled": 499, "data_loss": 500, "unknown": 500, "internal": 500, "unimplemented": 501, "unavailable": 503,
	"deadline_exceeded": 504,

	// OpenAI codes and types, also those of response.failed
	"server_error": 500, "internal_error": 500, "internal_server_error": 500, "engine_overloaded": 503,
	"server_overloaded": 503, "server_is_overloaded": 503, "slow_down": 503, "overloaded": 503, "service_unavailable": 503,
	"service_unavailable_error": 503, "model_overloaded": 503, "vector_store_timeout": 504, "timeout": 504,
	"request_timeout": 504, "gateway_timeout": 504, "bad_gateway": 502, "provider_unavailable": 502, "upstream_error": 502,
	"invalid_api_key": 401, "insufficient_quota": 429, "rate_limit_exceeded": 429, "too_many_requests": 429,
	"usage_limit_reached": 429, "billing_hard_limit_reached": 429, "model_not_found": 404, "context_length_exceeded": 400,
	"invalid_prompt": 400, "invalid_request": 400, "invalid_value": 400, "bad_request": 400, "content_filter": 400,
	"content_policy_violation": 400, "bio_policy": 400, "cyber_policy": 400, "unsupported_parameter": 400,
	"unsupported_value": 400, "unknown_parameter": 400, "missing_required_parameter": 400, "invalid_encrypted_content": 400,
	"previous_response_not_found": 400, "string_above_max_length": 400, "invalid_image": 400, "invalid_image_format": 400,
	"invalid_image_url": 400, "invalid_image_mode": 400, "invalid_base64_image": 400, "image_too_large": 400,
	"image_too_small": 400, "image_parse_error": 400, "image_content_policy_violation": 400, "image_file_too_large": 400,
	"unsupported_image_media_type": 400, "empty_image_file": 400, "failed_to_download_image": 400,
	"image_file_not_found": 400,

	// Bedrock
	"throttlingexception": 429, "servicequotaexceededexception": 429, "modelnotreadyexception": 429,
	"validationexception": 400, "accessdeniedexception": 403, "unrecognizedclientexception": 401,
	"expiredtokenexception": 401, "resourcenotfoundexception": 404, "modeltimeoutexception": 408,
	"internalserverexception": 500, "modelstreamerrorexception": 502, "modelerrorexception": 502,
	"serviceunavailableexception": 503,

	// DashScope
	"throttling": 429, "throttling.ratequota": 429, "throttling.allocationquota": 429, "throttling.burstrate": 429,
	"limitrequests": 429, "invalidapikey": 401, "invalidparameter": 400, "datainspectionfailed": 400,
	"data_inspection_failed": 400, "arrearage": 402, "modelnotfound": 404, "internalerror": 500, "requesttimeout": 504,
}

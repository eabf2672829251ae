package protocol

import (
	"strings"

	"spillway/internal/protocol/jsonscan"
)

// unknownError is the status of an error inside a 200 that says nothing we know: the upstream failed.
const unknownError = 502

func isHTTPError(n int) bool { return n >= 400 && n < 600 }

// httpStatus works out a status: a number that is one, then the table of code, status word and type, in this order.
func (d *details) httpStatus(known int) int {
	if isHTTPError(known) {
		return known
	}
	if isHTTPError(d.number) {
		return d.number
	}
	if n, ok := jsonscan.ParseInt([]byte(d.code)); ok {
		if isHTTPError(n) {
			return n
		}
		if d.base {
			if s, ok := baseRespStatus[n]; ok {
				return s
			}
		} else if s, ok := vendorStatus[n]; ok {
			return s
		}
	}
	for _, word := range [...]string{d.code, d.status, d.typ} {
		if s := StatusOf(word); s != 0 {
			return s
		}
	}
	return unknownError
}

// StatusOf is the HTTP status that a code, type or status word of an error object stands for, 0 when it is not known.
func StatusOf(word string) int {
	if word == "" || len(word) > 64 {
		return 0
	}
	word = strings.ToLower(word)
	if s, ok := wordStatus[word]; ok {
		return s
	}
	for _, p := range prefixStatus {
		if strings.HasPrefix(word, p.prefix) {
			return p.status
		}
	}
	return 0
}

// wordStatus: what the error codes and types of the public APIs mean. A type that says no more than "your request"
// stands below a code, since codes are looked up first.
var wordStatus = map[string]int{
	"invalid_request_error": 400, "invalid_request": 400, "invalid_prompt": 400, "invalid_argument": 400, "bad_request": 400,
	"badrequesterror": 400, "failed_precondition": 400, "out_of_range": 400, "context_length_exceeded": 400,
	"string_above_max_length": 400, "content_policy_violation": 400, "content_filter": 400, "invalid_value": 400,
	"missing_required_parameter": 400, "unsupported_parameter": 400, "unsupported_value": 400, "unsupported_image_media_type": 400,
	"failed_to_download_image": 400, "cyber_policy": 400, "bio_policy": 400, "unknown_parameter": 400, "invalid_type": 400,
	"empty_image_file": 400, "validation_error": 400, "previous_response_not_found": 400,

	"authentication_error": 401, "invalid_api_key": 401, "unauthenticated": 401, "unauthorized": 401,
	"invalid_authentication": 401, "authenticationerror": 401, "account_deactivated": 401, "incorrect_api_key": 401,
	"token_expired": 401, "invalid_api_key_error": 401,

	"billing_error": 402, "insufficient_credits": 402, "payment_required": 402, "insufficient_balance": 402,

	"permission_error": 403, "permission_denied": 403, "forbidden": 403, "access_denied": 403,
	"unsupported_country_region_territory": 403,

	"not_found_error": 404, "not_found": 404, "model_not_found": 404, "notfounderror": 404, "deployment_not_found": 404,
	"request_timeout": 408, "conflict_error": 409, "aborted": 409, "already_exists": 409,
	"request_too_large": 413, "unprocessable_entity": 422,

	"rate_limit_error": 429, "rate_limit_exceeded": 429, "rate_limit": 429, "rate_limited": 429, "ratelimit": 429,
	"rate_limit_reached_error": 429, "insufficient_quota": 429, "quota_exceeded": 429, "usage_limit_reached": 429,
	"resource_exhausted": 429, "too_many_requests": 429, "tokens": 429, "requests": 429, "throttling": 429,
	"throttlingexception": 429, "usage_not_included": 429, "exceeded_current_quota_error": 429, "toomanyrequests": 429,
	"resource-exhausted": 429, "free_tier_limit": 429,

	"cancelled": 499, "canceled": 499,
	"server_error": 500, "api_error": 500, "internal_error": 500, "internal_server_error": 500, "internal": 500,
	"unknown": 500, "data_loss": 500, "internalservererror": 500, "unimplemented": 501,
	"provider_unavailable": 502, "bad_gateway": 502, "upstream_error": 502, "upstream_stream_error": 502, "empty_response": 502,
	"unavailable": 503, "service_unavailable": 503, "service_unavailable_error": 503, "overloaded": 503,
	"engine_overloaded": 503, "engine_overloaded_error": 503, "server_overloaded": 503, "model_overloaded": 503,
	"slow_down": 503, "server_is_overloaded": 503, "capacity_exceeded": 503, "serviceunavailable": 503,
	"timeout_error": 504, "timeout": 504, "vector_store_timeout": 504, "deadline_exceeded": 504, "gateway_timeout": 504,
	"upstream_timeout": 504,
	"overloaded_error": 529,
}

// prefixStatus: families of codes.
var prefixStatus = []struct {
	prefix string
	status int
}{
	{"image_", 400}, {"invalid_image", 400}, {"unsupported_image", 400}, {"invalid_base64", 400},
	{"throttling.", 429}, {"rate_limit", 429}, {"quota_", 429},
}

// baseRespStatus are the codes of base_resp.status_code as MiniMax documents them.
var baseRespStatus = map[int]int{
	1000: 500, 1001: 504, 1002: 429, 1004: 401, 1008: 402, 1013: 500, 1024: 500, 1026: 400, 1027: 400, 1033: 500,
	1039: 429, 1041: 429, 2013: 400, 2049: 401, 2056: 429,
}

// vendorStatus are numeric codes of error objects as Zhipu documents them.
var vendorStatus = map[int]int{
	1000: 401, 1001: 401, 1002: 401, 1003: 401, 1004: 401, 1110: 403, 1111: 404, 1112: 403, 1113: 402, 1121: 403,
	1210: 400, 1211: 404, 1212: 404, 1213: 400, 1214: 400, 1215: 400, 1220: 403, 1221: 404, 1222: 404, 1230: 500,
	1234: 502, 1261: 400, 1301: 400, 1302: 429, 1303: 429, 1304: 429, 1305: 429, 1308: 429, 1309: 429, 1310: 429,
}

package verdict

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

func headers(kv ...string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(kv); i += 2 {
		h.Set(kv[i], kv[i+1])
	}
	return h
}

func TestHint(t *testing.T) {
	const none, header, structured, prose = gateway.HintNone, gateway.HintHeader, gateway.HintStructured, gateway.HintProse
	for _, c := range []struct {
		name   string
		status int // 0 = 429
		header http.Header
		body   string
		want   time.Duration
		src    gateway.HintSource
	}{
		{"nothing", 0, nil, ``, 0, none},
		{"seconds", 0, headers("Retry-After", "20"), ``, 20 * time.Second, header},
		{"fraction", 0, headers("Retry-After", "0.5"), ``, 500 * time.Millisecond, header},
		{"zero", 0, headers("Retry-After", "0"), ``, 0, none},
		{"negative", 0, headers("Retry-After", "-5"), ``, 0, none},
		{"date", 0, headers("Retry-After", "Tue, 10 Mar 2026 12:01:30 GMT"), ``, 90 * time.Second, header},
		{"past date", 0, headers("Retry-After", "Tue, 10 Mar 2026 11:01:30 GMT"), ``, 0, none},
		{"RFC 3339", 0, headers("Retry-After", "2026-03-10T12:00:10.5Z"), ``, 10500 * time.Millisecond, header},
		{"bound (P29)", 0, headers("Retry-After", "999999999"), ``, maxHint, header},
		{"18 days stay below the bound", 0, headers("Retry-After", "1587827"), ``, 1587827 * time.Second, header},
		{"overflow", 0, headers("Retry-After", strings.Repeat("9", 60)), ``, maxHint, header},
		{"garbage", 0, headers("Retry-After", "soon"), ``, 0, none},
		{"NaN", 0, headers("Retry-After", "NaN"), ``, 0, none},
		{"infinite", 0, headers("Retry-After", "Inf"), ``, 0, none},
		{"exponent", 0, headers("Retry-After", "1e9"), ``, 0, none},
		{"milliseconds win", 0, headers("Retry-After", "7", "Retry-After-Ms", "6640"), ``, 6640 * time.Millisecond, header},
		{"Azure milliseconds", 0, headers("X-Ms-Retry-After-Ms", "1500"), ``, 1500 * time.Millisecond, header},
		{"status below 400", 200, headers("Retry-After", "20"), ``, 0, none},
		{"any error status", 500, headers("Retry-After", "20"), ``, 20 * time.Second, header},

		{"bucket, seconds", 0, headers("X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "30"), ``, 30 * time.Second, header},
		{"bucket, epoch", 0, headers("X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "1773144060"), ``, time.Minute, header},
		{"bucket, epoch in ms", 0, headers("X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "1773144060500"), ``, 60500 * time.Millisecond, header},
		{"bucket, duration", 0, headers("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "1m30s"), ``, 90 * time.Second, header},
		{"bucket, milliseconds", 0, headers("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6ms"), ``, 6 * time.Millisecond, header},
		{"bucket, days", 0, headers("X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "1d2h3m"), ``, 26*time.Hour + 3*time.Minute, header},
		{"bucket with something left", 0, headers("X-Ratelimit-Remaining", "5", "X-Ratelimit-Reset", "30"), ``, 0, none},
		{"the empty one of two", 0, headers("X-Ratelimit-Remaining-Requests", "9", "X-Ratelimit-Reset-Requests", "8h", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "2s"), ``, 2 * time.Second, header},
		{"the later of two empty ones", 0, headers("X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Reset-Requests", "9s", "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "2s"), ``, 9 * time.Second, header},
		{"unsaid beside said", 0, headers("X-Ratelimit-Reset", "30", "X-Ratelimit-Remaining-Tokens", "7", "X-Ratelimit-Reset-Tokens", "2s"), ``, 0, none},
		{"nobody says what is left", 0, headers("X-Ratelimit-Reset", "30"), ``, 30 * time.Second, header},
		{"bucket of a caller's fault", 400, headers("X-Ratelimit-Remaining", "0", "X-Ratelimit-Reset", "30"), ``, 0, none},
		{"anthropic", 0, headers("Anthropic-Ratelimit-Requests-Remaining", "0", "Anthropic-Ratelimit-Requests-Reset", "2026-03-10T12:00:42Z"), ``, 42 * time.Second, header},
		{"anthropic, left", 0, headers("Anthropic-Ratelimit-Requests-Remaining", "3", "Anthropic-Ratelimit-Requests-Reset", "2026-03-10T12:00:42Z"), ``, 0, none},
		{"anthropic unified", 0, headers("Anthropic-Ratelimit-Unified-Status", "rejected", "Anthropic-Ratelimit-Unified-Reset", "1773147600"), ``, time.Hour, header},
		{"anthropic unified, allowed", 0, headers("Anthropic-Ratelimit-Unified-Status", "allowed", "Anthropic-Ratelimit-Unified-Reset", "1773147600"), ``, 0, none},
		{"IETF draft, old", 0, headers("Ratelimit", "limit=100, remaining=0, reset=50"), ``, 50 * time.Second, header},
		{"IETF draft, new", 0, headers("Ratelimit", `"default";r=0;t=51`), ``, 51 * time.Second, header},
		{"IETF draft, left", 0, headers("Ratelimit", `"default";r=2;t=51`), ``, 0, none},

		{"RetryInfo", 0, nil, `{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"33.5s"}]}}`, 33500 * time.Millisecond, structured},
		{"RetryInfo, minutes", 0, nil, `[{"error":{"details":[{"retryDelay":"2m"}]}}]`, 2 * time.Minute, structured},
		{"RetryInfo, ms", 0, nil, `{"error":{"details":[{"retryDelay":"1500ms"}]}}`, 1500 * time.Millisecond, structured},
		{"RetryInfo, bare", 0, nil, `{"error":{"details":[{"retryDelay":"33"}]}}`, 33 * time.Second, structured},
		{"RetryInfo, object", 0, nil, `{"error":{"details":[{"retryDelay":{"seconds":3,"nanos":500000000}}]}}`, 3500 * time.Millisecond, structured},
		{"resets_in_seconds (P28)", 0, nil, `{"error":{"type":"usage_limit_reached","resets_in_seconds":561635}}`, 561635 * time.Second, structured},
		{"resets_at, epoch", 0, nil, `{"error":{"resets_at":1773144030}}`, 30 * time.Second, structured},
		{"resets_at, text", 0, nil, `{"error":{"resets_at":"2026-03-10T12:00:31Z"}}`, 31 * time.Second, structured},
		{"resets_at, past", 0, nil, `{"error":{"resets_at":1700000000}}`, 0, none},
		{"retry_after", 0, nil, `{"error":{"retry_after":12.5}}`, 12500 * time.Millisecond, structured},
		{"retry_after, ISO", 0, nil, `{"error":{"retry_after":"2026-03-10T12:00:12Z"}}`, 12 * time.Second, structured},
		{"retryAfterMs", 0, nil, `{"error":{"retryAfterMs":250}}`, 250 * time.Millisecond, structured},
		{"retry_after_ms, text", 0, nil, `{"retry_after_ms":"250"}`, 250 * time.Millisecond, structured},
		{"quoted headers", 0, nil, `{"error":{"metadata":{"headers":{"X-RateLimit-Remaining":"0","X-RateLimit-Reset":"1773144060000"}}}}`, time.Minute, structured},
		{"the longest field", 0, nil, `{"error":{"retry_after":5,"resets_in_seconds":70}}`, 70 * time.Second, structured},
		{"boolean", 0, nil, `{"error":{"retry_after":true,"resets_at":null,"retry_after_ms":{}}}`, 0, none},
		{"negative number", 0, nil, `{"error":{"retry_after":-4}}`, 0, none},
		{"what repeats the request is no hint", 0, nil, `{"error":{"message":"x"},"input":{"retry_after":99},"request":{"resets_in_seconds":9}}`, 0, none},
		{"metadata of an answer is the client's", 0, nil, `{"response":{"metadata":{"retry_after":"99"},"error":{"message":"x"}}}`, 0, none},

		{"structured over header", 0, headers("Retry-After", "9"), `{"error":{"retry_after":3,"message":"try again in 20s"}}`, 3 * time.Second, structured},
		{"header over prose", 0, headers("Retry-After", "9"), `{"error":{"message":"try again in 20s"}}`, 9 * time.Second, header},

		{"try again in", 0, nil, `{"error":{"message":"Please try again in 1m2s."}}`, 62 * time.Second, prose},
		{"please retry in", 0, nil, `{"error":{"message":"Please retry in 33.5s."}}`, 33500 * time.Millisecond, prose},
		{"words", 0, nil, `{"error":{"message":"Try again in 2 hours and 5 minutes"}}`, 125 * time.Minute, prose},
		{"retry after, bare", 0, nil, `{"error":{"message":"rate limited, retry after 30"}}`, 30 * time.Second, prose},
		{"retry-after in words", 0, nil, `{"error":{"message":"Please retry after 43 seconds."}}`, 43 * time.Second, prose},
		{"wait", 0, nil, `{"error":{"message":"Please wait 44521 seconds before retrying."}}`, 44521 * time.Second, prose},
		{"resets in", 0, nil, `{"error":{"message":"Monthly usage limit reached. Resets in 12 days."}}`, 12 * 24 * time.Hour, prose},
		{"reset after", 0, nil, `{"error":{"message":"quota will reset after 23h59m59s"}}`, 24*time.Hour - time.Second, prose},
		{"available in 3 days", 0, nil, `{"error":{"message":"Your quota is available again in 3 days"}}`, 72 * time.Hour, prose},
		{"resets at ISO", 0, nil, `{"error":{"message":"Limit reached, resets at 2026-03-10T13:00:00Z."}}`, time.Hour, prose},
		{"until UTC", 0, nil, `{"error":{"message":"blocked until 2026-03-10 12:30:00 UTC"}}`, 30 * time.Minute, prose},
		{"regain access on", 0, nil, `{"error":{"message":"You will regain access on 2026-03-11 at 00:00 UTC."}}`, 12 * time.Hour, prose},
		{"month and day", 0, nil, `{"error":{"message":"will reset at 03-11 12:00:00 UTC"}}`, 24 * time.Hour, prose},
		{"month and day of next year", 0, nil, `{"error":{"message":"will reset at 01-01 00:00:00 UTC"}}`, maxHint, prose},
		{"epoch behind a bar", 0, nil, `{"error":{"message":"Claude AI usage limit reached|1773147600"}}`, time.Hour, prose},
		{"Chinese seconds", 0, nil, `{"error":{"message":"请求过于频繁，请在30秒后重试"}}`, 30 * time.Second, prose},
		{"Chinese chain", 0, nil, `{"error":{"message":"请 1 小时 30 分钟后再试"}}`, 90 * time.Minute, prose},
		{"Chinese instant", 0, nil, `{"error":{"message":"已达到 5 小时的使用上限。您的限额将在 2026-03-10 20:30:00 重置。"}}`, 30 * time.Minute, prose},
		{"a limit is no wait", 0, nil, `{"error":{"message":"You have reached your 5 hour limit of 50 requests per 60 seconds"}}`, 0, none},
		{"past instant", 0, nil, `{"error":{"message":"resets at 2020-01-01T00:00:00Z"}}`, 0, none},
		{"plain body", 503, nil, "Service busy. Retry in 5 seconds", 5 * time.Second, prose},
	} {
		t.Run(c.name, func(t *testing.T) {
			status := c.status
			if status == 0 {
				status = 429
			}
			d, src, ok := Hint(status, c.header, []byte(c.body), endedAt)
			if d != c.want || src != c.src || ok != (c.want > 0) {
				t.Errorf("Hint = %v from %v, %v; want %v from %v", d, src, ok, c.want, c.src)
			}
		})
	}
}

// A hint of whatever origin is positive and bounded.
func TestHintIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(
			rapid.String(),
			rapid.StringMatching(`[0-9]{1,40}(\.[0-9]{1,5})?`),
			rapid.StringMatching(`([0-9]{1,12}(ms|s|m|h|d)){1,4}`),
			rapid.StringMatching(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z`),
		).Draw(t, "value")
		quoted, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []time.Duration{
			first(Hint(429, headers("Retry-After", value), nil, endedAt)),
			first(Hint(429, headers("X-Ratelimit-Reset", value), nil, endedAt)),
			first(Hint(429, nil, []byte(`{"error":{"retry_after":`+string(quoted)+`}}`), endedAt)),
			first(Hint(429, nil, []byte("try again in "+value), endedAt)),
		} {
			if d < 0 || d > maxHint {
				t.Fatalf("hint of %q is %v", value, d)
			}
		}
	})
}

func first(d time.Duration, _ gateway.HintSource, _ bool) time.Duration { return d }

package protocol

import (
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
)

// TestP73StatusTable: what error words stand for, whatever their case.
func TestP73StatusTable(t *testing.T) {
	for word, want := range map[string]int{
		"overloaded_error": 529, "rate_limit_error": 429, "insufficient_quota": 429, "server_error": 500, "invalid_prompt": 400,
		"image_content_policy_violation": 400, "invalid_image_url": 400, "vector_store_timeout": 504, "RESOURCE_EXHAUSTED": 429,
		"UNAVAILABLE": 503, "Throttling.RateQuota": 429, "permission_error": 403, "not_found_error": 404, "model_not_found": 404,
		"": 0, "never_heard_of": 0, strings.Repeat("image_", 40): 0,
	} {
		if got := StatusOf(word); got != want {
			t.Errorf("%s: %d, want %d", word, got, want)
		}
	}
	for word, s := range wordStatus {
		if !isHTTPError(s) || word != strings.ToLower(word) || StatusOf(strings.ToUpper(word)) != s {
			t.Errorf("%s: %d", word, s)
		}
	}
}

func TestReadErrorStatusOrder(t *testing.T) {
	for _, tc := range []struct {
		raw   string
		known int
		want  int
	}{
		{`{"code":"invalid_prompt","type":"server_error"}`, 0, 400},
		{`{"code":"never_heard_of","type":"overloaded_error"}`, 0, 529},
		{`{"code":429,"type":"server_error"}`, 0, 429},
		{`{"code":17,"http_status":503}`, 0, 503},
		{`{"code":"server_error"}`, 418, 418},
		{`{"code":"server_error"}`, 200, 500},
		{`{"status_code":1002}`, 0, 429},
		{`{"code":1002}`, 0, 401},
		{`"text"`, 0, 502},
		{`{"error":{"error":{"error":{"error":{"code":429}}}}}`, 0, 502},
		{`7`, 0, 502},
		{`null`, 0, 502},
	} {
		var s Signal
		ReadError([]byte(tc.raw), tc.known, &s)
		if s.ErrStatus != tc.want || !s.Flags.Has(Error) {
			t.Errorf("%s: %d, want %d", tc.raw, s.ErrStatus, tc.want)
		}
	}
	var s Signal
	ReadError([]byte(`{"message":"`+strings.Repeat("x", 2*maxMessage)+`"}`), 0, &s)
	if len(s.Message) != maxMessage {
		t.Errorf("a message of %d bytes is kept", len(s.Message))
	}
}

func TestUnwrap(t *testing.T) {
	for in, want := range map[string]string{
		`[{"a":1}]`: `{"a":1}`, ` [ {"a":1} ] `: `{"a":1}`, `[{"a":1},{}]`: `[{"a":1},{}]`, `[1]`: `[1]`, `[]`: `[]`, `{"a":1}`: `{"a":1}`, `[{"a":1}`: `[{"a":1}`, `[{"a":1}]x`: `[{"a":1}]x`,
	} {
		got, wrapped := Unwrap([]byte(in))
		if string(got) != want || wrapped != (got[0] == '{' && in[0] != '{') {
			t.Errorf("%s: %s %v", in, got, wrapped)
		}
	}
}

func TestUsageGrows(t *testing.T) {
	a := gateway.Usage{Input: 10, Output: 1, Estimated: true}
	b := gateway.Usage{Input: 12, CachedInput: 4, Output: 7, Reasoning: 3}
	if got := MergeUsage(a, b); got != b || MergeUsage(b, a) != b {
		t.Errorf("%+v", got)
	}
	if !MergeUsage(a, a).Estimated {
		t.Error("two estimates are no fact")
	}
}

func TestObserve(t *testing.T) {
	var st StreamState
	for i := range 2 * maxBlocks {
		st.Observe(&Signal{Flags: BlockOpen, Block: i})
	}
	if st.Open != maxBlocks {
		t.Errorf("%d open", st.Open)
	}
	st.Observe(&Signal{Flags: BlockClosed, Block: 3})
	st.Observe(&Signal{Flags: BlockClosed, Block: 99})
	if st.Open != maxBlocks-1 || st.Blocks[3] != 4 {
		t.Errorf("%+v", st)
	}
	var other StreamState
	other.Observe(&Signal{Flags: Malformed, ID: []byte("x")})
	if other != (StreamState{}) {
		t.Error("a malformed event is observed")
	}
	other.Observe(&Signal{Flags: ToolClosed})
	if other.ServerTools != 0 {
		t.Error("fewer than no tools")
	}
}

func TestMessageOf(t *testing.T) {
	for want, e := range map[string]gateway.Error{
		"draining": {Code: gateway.Draining},
		"m. n":     {Message: "m", Next: "n"},
		"n":        {Next: "n"},
		"their":    {Message: "their", Next: "n", Upstream: true},
	} {
		if got := MessageOf(&e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for d, want := range map[time.Duration]int{0: 0, -1: 0, 1: 1, time.Second: 1, time.Second + 1: 2} {
		if RetrySeconds(d) != want {
			t.Errorf("%v: %d", d, RetrySeconds(d))
		}
	}
}

func TestJoinURL(t *testing.T) {
	for _, tc := range [][4]string{
		{"http://h/v1", "/x", "", "http://h/v1/x"}, {"http://h/v1/", "/x", "q=1", "http://h/v1/x?q=1"},
		{"http://h?a=1", "/x", "", "http://h/x?a=1"}, {"http://h/?a=1", "/x", "q=1", "http://h/x?a=1&q=1"},
	} {
		if got := JoinURL(tc[0], tc[1], tc[2]); got != tc[3] {
			t.Errorf("%s, want %s", got, tc[3])
		}
	}
	if !PathEnds("http://h/v1/?x=/v2", "/v1") || PathEnds("http://h", "/v1") {
		t.Error("PathEnds")
	}
}

func TestFlagNames(t *testing.T) {
	if got := (Content | Metadata).String(); got != "content|metadata" || len(flagNames) != 19 || Odd != 1<<18 {
		t.Error(got)
	}
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const ruled = `providers:
  a: {protocols: [openai], base_url: http://127.0.0.1:9/v1, use_global_rules: false}
  b: {protocols: [openai, anthropic], base_url: http://127.0.0.1:9/v1}
connections:
  - {id: a1, provider: a, key: sk-secret-of-a1}
  - {id: b1, provider: b, key: sk-secret-of-b1}
rules:
  - {id: weekend, text: "weekend", status: [429], count: false}
  - {id: busy, connection: b1, status: [500-504], text: "too many", kind: rate_limited, cooldown: 20s}
  - {id: lying, provider: b, from: [403], to: 429, text_any: ["slow down"], text_none: "forbidden", default_retry_after: 1m}
`

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// dry runs check --rule over a body and returns what it wrote.
func dry(t *testing.T, body string, args ...string) (int, string, string) {
	t.Helper()
	return command(t, append([]string{"check", "--rule", "--config", file(t, ruled), "--body", write(t, "body", body)}, args...)...)
}

func TestCheckRule(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		args []string
		want []string
	}{
		"operator rule": {`{"error":{"message":"too many jobs"}}`, []string{"--connection", "b1", "--status", "503"},
			[]string{"rule busy", "status wants 500-504, found 503", "rate_limited", "20s, from the rule", "rests for 20s", "fails over"}},
		"near miss of the operator's": {`{"error":{"message":"too many jobs"}}`, []string{"--connection", "a1", "--status", "503"},
			[]string{"rule busy: connection wants b1, found a1", "the table of statuses: 503"}},
		"global rule kept away": {`{"error":{"message":"closed at the weekend"}}`, []string{"--provider", "a", "--status", "429"},
			[]string{"rule weekend: use_global_rules wants true, found false"}},
		"global rule elsewhere": {`{"error":{"message":"closed at the weekend"}}`, []string{"--provider", "b", "--status", "429"},
			[]string{"rule weekend", "count: false", "COUNTS"}},
		"restatement": {`{"error":{"message":"slow down"}}`, []string{"--provider", "b", "--status", "403"},
			[]string{"RESTATED", "429 Too Many Requests, by restatement lying", "is told Retry-After 1m0s"}},
		"vetoed": {`{"error":{"message":"forbidden, slow down"}}`, []string{"--provider", "b", "--status", "403"},
			[]string{"restatement lying: text_none wants forbidden, found forbidden", "auth_error"}},
		"built-in, in a stream": {"data: {\"error\":{\"code\":\"insufficient_quota\",\"message\":\"x\"}}\n\n", []string{"--provider", "b", "--stream"},
			[]string{"of an error inside a 200", "built-in rule code-credits", "credits_exhausted"}},
		"after content": {"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"error\":{\"code\":502,\"message\":\"x\"}}\n\n", []string{"--provider", "b", "--stream"},
			[]string{"of an error inside a 200", "service_error"}},
		"an event alone": {`{"error":{"code":"1305","message":"x"}}`, []string{"--provider", "zhipu", "--stream"},
			[]string{"built-in rule zhipu-model-crowded", "the model is locked"}},
		"whole answer with an error": {`{"base_resp":{"status_code":1008,"status_msg":"x"}}`, []string{"--provider", "minimax", "--status", "200"},
			[]string{"built-in rule minimax-balance", "credits_exhausted"}},
		"answer": {`{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}`, []string{"--provider", "b", "--status", "200"},
			[]string{"no error was said", "success"}},
		"page": {`<html>hello</html>`, []string{"--provider", "b", "--status", "200"}, []string{"service_error"}},
		"hint": {``, []string{"--provider", "b", "--status", "429", "--header", "Retry-After: 9", "--header", "X-A: b, c"},
			[]string{"9s, from the upstream: header"}},
		"feature": {`{"error":{"message":"m does not support tools"}}`, []string{"--provider", "b", "--status", "400"}, []string{"tools", "goes on to a target that may have tools"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := dry(t, c.body, c.args...)
			if code != exitOK {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("%q is missing in:\n%s", want, stdout)
				}
			}
			if strings.Contains(stdout, "sk-secret") {
				t.Error("a secret was printed")
			}
		})
	}
}

func TestCheckRuleExpects(t *testing.T) {
	for expect, want := range map[string]int{"rate_limited": exitOK, "busy": exitOK, "banned": exitFailed} {
		code, _, stderr := dry(t, `{"error":{"message":"too many jobs"}}`, "--connection", "b1", "--status", "503", "--expect", expect)
		if code != want || (code == exitFailed) != strings.Contains(stderr, "expected banned") {
			t.Errorf("%s: exit code %d, want %d: %s", expect, code, want, stderr)
		}
	}
}

func TestCheckRuleSeesTheRequest(t *testing.T) {
	request := write(t, "request", `{"messages":[{"role":"user","content":"too many"}]}`)
	code, stdout, _ := dry(t, `{"error":{"message":"too many"}}`, "--connection", "b1", "--status", "503", "--request", request)
	if code != exitOK || !strings.Contains(stdout, "stands in the request") {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
}

func TestCheckRuleAsJSON(t *testing.T) {
	code, stdout, _ := dry(t, `{"error":{"message":"too many jobs"}}`, "--connection", "b1", "--status", "503", "--json")
	var x struct {
		Rule    struct{ ID string }
		Outcome struct {
			Kind, Scope, Reason string
			RetryAfter          float64 `json:"retry_after_seconds"`
			Cooldown            float64 `json:"cooldown_seconds"`
			Count               bool
		}
		Consequences []struct{ Who, What string }
	}
	if err := json.Unmarshal([]byte(stdout), &x); err != nil || code != exitOK {
		t.Fatalf("%d %v\n%s", code, err, stdout)
	}
	if x.Rule.ID != "busy" || x.Outcome.Kind != "rate_limited" || x.Outcome.Scope != "account" || x.Outcome.RetryAfter != 20 || x.Outcome.Cooldown != 20 || !x.Outcome.Count || len(x.Consequences) < 5 {
		t.Errorf("%+v", x)
	}
}

func TestCheckRuleMisuse(t *testing.T) {
	for _, args := range [][]string{{"--status", "42"}, {"--provider", "nobody"}, {"--connection", "nobody"}, {"--connection", "a1", "--provider", "b"},
		{"--header", "nonsense"}, {"--stream", "--status", "500"}, {"--request", "no/such/file"}} {
		if code, _, stderr := dry(t, "", args...); code != exitMisuse || strings.TrimSpace(stderr) == "" {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
		}
	}
	if code, _, stderr := command(t, "check", "--status", "429", "--config", file(t, good)); code != exitMisuse || !strings.Contains(stderr, "--rule") {
		t.Errorf("without --rule: exit code %d, %q", code, stderr)
	}
	if code, _, _ := command(t, "check", "--rule", "--config", file(t, "rules: [{id: x}]")); code != exitMisuse {
		t.Errorf("a wrong configuration: exit code %d", code)
	}
}

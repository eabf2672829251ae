package verdict

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// A body made to be expensive must not stall the gateway: the work is bounded by the 4 KiB of text that rules see.
func TestWorstCaseIsBounded(t *testing.T) {
	bodies := map[string][]byte{
		"phrases": []byte(strings.Repeat(strings.Join(phrases(), " "), 2)),
		"deep":    []byte(strings.Repeat(`{"error":`, 5000) + "1" + strings.Repeat("}", 5000)),
		"braces":  bytes.Repeat([]byte("["), 64<<10),
		"tags":    bytes.Repeat([]byte("<script"), 9<<10),
		"words":   []byte("model m1 " + strings.Repeat("not support the use of tools type value ", 2000)),
		"slashes": bytes.Repeat([]byte(`\u00e9 `), 9<<10),
		"digits":  bytes.Repeat([]byte("try again in 9"), 5<<10),
	}
	request := []byte(`{"messages":"` + strings.Repeat("suspended billing model not found try again in 5s \\n ", 5000) + `"}`)
	for name, body := range bodies {
		for _, status := range []int{400, 403, 404, 429} {
			began := time.Now()
			e := httpError(status, string(body))
			e.RequestText = func() []byte { return request }
			builtinRules.Judge(e)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("%s with %d took %v", name, status, took)
			}
		}
	}
}

package affinity

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{TTL: -1, ReturnIdle: -1, ReturnTokens: -1, PinTTL: -1}.Validate()
	for _, field := range []string{"ttl: ", "return_idle: ", "return_tokens: ", "pin_ttl: "} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%sis not reported: %v", field, err)
		}
	}
}

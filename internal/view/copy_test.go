package view

import (
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
)

func TestTimelineOfACopy(t *testing.T) {
	at := time.Unix(1_700_000_000, 0).UTC()
	j := &gateway.Journey{ID: "req_2", At: at, EndedAt: at.Add(time.Millisecond), Committed: at, Model: "smart", Status: 200, CopyOf: "req_1",
		Served: gateway.Target{Provider: "a", Model: "m"}}
	for shared, want := range map[bool]string{
		false: "answered from the cache with the answer to req_1 in 1ms, 0s of it ours; no upstream was asked",
		true:  "answered with the answer to req_1, which was the same request in flight, in 1ms, 0s of it ours; no upstream was asked",
	} {
		j.Shared = shared
		var b strings.Builder
		if err := Timeline(&b, j, Options{}); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%v, want %q in:\n%s", err, want, b.String())
		}
		if r := JSON(j); r.CopyOf != "req_1" || r.Shared != shared || len(r.Attempts) != 0 {
			t.Errorf("%+v", r)
		}
	}
}

package envelope

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"spillway/internal/gateway"
)

func TestQuoteWritesWhatMarshalWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z/:.\-0-9]*["\\<>&\x00-\x1f\x7f]?`)).Draw(t, "s")
		want, err := json.Marshal(s)
		if got := quote(s); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q: %s, want %s", s, got, want)
		}
	})
}

func TestUsualStreamOptionsReadAsOthers(t *testing.T) {
	for options, want := range map[string]bool{`{"include_usage":true}`: true, `{"include_usage": true}`: true,
		`{"include_usage" :true}`: true, `{"include_usage":false}`: false, `{"include_usage":null}`: false, `{}`: false} {
		e := decodeFor(t, gateway.OpenAI, `{"model":"m","messages":[],"stream":true,"stream_options":`+options+`}`)
		if e.IncludeUsage != want || !e.StreamSpan.Set() {
			t.Errorf("%s: %t", options, e.IncludeUsage)
		}
	}
}

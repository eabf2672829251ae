package envelope

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
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

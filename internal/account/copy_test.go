package account

import "testing"

// Whose answer a request got is kept, and costs nothing beyond the request itself.
func TestCopiesAreKept(t *testing.T) {
	for _, shared := range []bool{true, false} {
		j := benchJourney(t0)
		j.CopyOf, j.Shared, j.Attempts = "req_other", shared, nil
		got, err := decodeJourney(appendJourney(nil, j, false))
		if err != nil || got.CopyOf != j.CopyOf || got.Shared != shared {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

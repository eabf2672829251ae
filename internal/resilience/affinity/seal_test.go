package affinity

import (
	"fmt"
	"testing"
	"time"

	"spillway/internal/gateway"
)

func of(account string, e Event) Event { e.Account = account; return e }

func moved(e Event) Event { e.Moved = true; return e }

// A session that has been at two accounts is known as one for as long as it is bound.
func TestMovedSessions(t *testing.T) {
	cfg := Default()
	var b Bond
	for i, row := range []struct {
		e          Event
		after      time.Duration
		moved      bool
		sole       string // account that has given all answers; "" = there is none
		connection string
	}{
		{of("x", success("a", 1)), 0, false, "x", "a"},
		{of("x", success("b", 1)), time.Minute, false, "x", "b"}, // another key of the account
		{of("y", success("c", 1)), 2 * time.Minute, true, "", "c"},
		{of("y", success("c", 1)), 3 * time.Minute, true, "", "c"},
		{of("y", ended("c", gateway.ServiceError)), 4 * time.Minute, false, "", ""},
		{moved(of("x", success("a", 1))), 4 * time.Minute, true, "", "a"}, // the request knew where it came from
		{of("x", success("a", 1)), 3 * time.Hour, false, "x", "a"},        // a session anew
	} {
		b = b.step(cfg, row.e, at(row.after))
		if b.Moved != row.moved || b.Connection != row.connection {
			t.Errorf("step %d: %+v", i, b)
		}
		for _, account := range []string{"x", "y"} {
			if b.Connection != "" && b.Sole(b.Connection, account) != (account == row.sole) {
				t.Errorf("step %d: all of %s: %t", i, account, b.Sole(b.Connection, account))
			}
		}
	}
	early := Bond{Connection: "a", Model: "m", At: t0} // of a version that knew no accounts
	if !early.Sole("a", "x") || early.Sole("b", "x") {
		t.Error("the connection of an early record is not its account")
	}
}

func TestSealsAreKnownAndBounded(t *testing.T) {
	r := New(Options{Seals: 10})
	for i := range 15 {
		r.RecordSeal(gateway.SealOf(fmt.Sprint(i)), fmt.Sprintf("account-%d", i%2), at(time.Duration(i)*time.Minute))
	}
	for i := range 15 {
		by, ok := r.PeekSeal(gateway.SealOf(fmt.Sprint(i)), at(time.Hour))
		if ok != (i >= 5) || ok && by != fmt.Sprintf("account-%d", i%2) {
			t.Errorf("%d: %q %t", i, by, ok)
		}
	}
	if _, ok := r.PeekSeal(gateway.SealOf("14"), at(1000*time.Hour)); ok {
		t.Error("remembered for ever")
	}
	r.Configure(Config{TTL: time.Hour})
	r.RecordSeal(gateway.SealOf("new"), "x", t0)
	if _, ok := r.PeekSeal(gateway.SealOf("new"), t0); ok {
		t.Error("remembered though nothing is to be")
	}
}

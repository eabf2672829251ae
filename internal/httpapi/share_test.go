package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"spillway/internal/attempt"
	"spillway/internal/cache"
	"spillway/internal/commit"
	"spillway/internal/gateway"
	"spillway/internal/protocol/families"
)

// leading is a share that leads a flight, with another reader of it.
func leading(t *testing.T, window int64) (s *share, own, other *cache.Reader, w *httptest.ResponseRecorder) {
	t.Helper()
	room := cache.New(nil)
	id := gateway.RequestID("r")
	own, leads := room.Flights.Join(cache.Key{}, id, window, func() {})
	other, again := room.Flights.Join(cache.Key{}, id, window, func() {})
	if !leads || again {
		t.Fatal("the first one leads, the second does not")
	}
	w = httptest.NewRecorder()
	family := families.For(gateway.OpenAI)
	door := commit.New(commit.Options{Writer: w, Family: family, Stream: true, Headers: func(http.Header, *gateway.Answer) {}})
	t.Cleanup(door.Close)
	t.Cleanup(own.Leave)
	t.Cleanup(other.Leave)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	return &share{q: &request{r: r, w: w, family: family}, door: door, job: &attempt.Job{Journey: &gateway.Journey{}}}, own, other, w
}

// A leader that is cut off before it has taken anything gets an error of its own, not a 200 without a body.
func TestLeaderCutOffBeforeItBegan(t *testing.T) {
	s, own, other, w := leading(t, 4)
	f := own.Flight()
	if err := f.Commit(&gateway.Answer{Status: 200, Stream: true, Body: []byte("data: one\n\n")}); err != nil {
		t.Fatal(err)
	}
	if b, _, err := other.Next(t.Context()); err != nil || len(b) == 0 {
		t.Fatal(b, err)
	}
	if err := f.Write([]byte("data: two\n\n")); err != nil {
		t.Fatal(err)
	}
	gerr := s.deliver(own)
	if gerr == nil || gerr.Code != gateway.Overloaded || gerr.HTTPStatus() != http.StatusServiceUnavailable {
		t.Fatalf("the client is told %v", gerr)
	}
	if s.door.Opened() || w.Body.Len() != 0 {
		t.Errorf("something was sent: %q", w.Body)
	}
}

// However a run ends that others share, a client that has part of the answer sees an error at its end: also when nobody
// has written one, as after a panic.
func TestSharedEndsAreToldWithoutATail(t *testing.T) {
	for name, body := range map[string]string{"part of an answer": "data: one\n\n", "a head alone": ""} {
		s, own, _, w := leading(t, 1<<20)
		f := own.Flight()
		if err := f.Commit(&gateway.Answer{Status: 200, Stream: true, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
		f.End(cache.End{Error: &gateway.Error{Code: gateway.Internal, Message: "it has failed"}})
		if gerr := s.deliver(own); gerr != nil {
			t.Errorf("%s: %v", name, gerr)
		}
		if got := w.Body.String(); !strings.HasPrefix(got, body) || !strings.Contains(got, "it has failed") {
			t.Errorf("%s: the client got %q", name, got)
		}
	}
}

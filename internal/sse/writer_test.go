package sse

import (
	"strings"
	"testing"
)

func TestAppend(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{string(AppendEvent(nil, "", []byte(`{"a":1}`))), "data: {\"a\":1}\n\n"},
		{string(AppendEvent([]byte("x"), "error", []byte("a\nb\r\nc\rd"))), "xevent: error\ndata: a\ndata: b\ndata: c\ndata: d\n\n"},
		{string(AppendEvent(nil, "", nil)), "data: \n\n"},
		{string(AppendComment(nil, "keep-alive")), ": keep-alive\n\n"},
		{string(AppendComment(nil, "a\nb")), ": a\n: b\n\n"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}

func TestAppendWithData(t *testing.T) {
	for in, want := range map[string]string{
		"id: 1\r\ndata:abc\r\n: c\r\n\r\n": "id: 1\r\ndata:NEW\r\n: c\r\n\r\n",
		"event: e\ndata: abc\n\n":          "event: e\ndata: NEW\n\n",
		"data: a\ndata: b\nevent: e\n\n":   "event: e\ndata: NEW\n\n",
		"data:\n\n":                        "data:NEW\n\n",
	} {
		r := NewReader(strings.NewReader(in), 0)
		r.Fill()
		ev, ok, err := r.Next()
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		if got := string(AppendWithData(nil, ev, []byte("NEW"))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// TestRoundTrip: what the writer wrote, the reader reads.
func TestRoundTrip(t *testing.T) {
	for _, data := range []string{"", "x", " x", "a\nb", "\n", `{"a":"b"}`} {
		r := NewReader(strings.NewReader(string(AppendEvent(nil, "n", []byte(data)))), 0)
		r.Fill()
		ev, ok, _ := r.Next()
		if !ok || string(ev.Data) != data || string(ev.Name) != "n" {
			t.Errorf("%q came back as %q", data, ev.Data)
		}
	}
}

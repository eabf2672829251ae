package client

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestPatternReadsWhatJSONReads: with and without the shortcut a stream is read the same, whatever follows a plain piece.
func TestPatternReadsWhatJSONReads(t *testing.T) {
	chunk := func(content string) string {
		return `{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":` + content + `},"finish_reason":null}]}`
	}
	first := chunk(`"one"`)
	for _, next := range []string{chunk(`" two"`), chunk(`"\n"`), chunk(`""`), chunk(`"é"`), chunk("\"\xff\""), chunk("\"a\x01\""), chunk(`null`),
		chunk(`"x","content":"y"`), strings.Replace(first, `"finish_reason":null`, `"finish_reason":"stop"`, 1), strings.Replace(first, `"m"`, `"n"`, 1),
		`{"error":{"message":"boom"}}`, first[:len(first)-1], "[DONE]"} {
		read := func(warm bool) string {
			r := &reading{now: func() time.Time { return time.Time{} }}
			var errs []string
			for _, data := range []string{first, next, chunk(`" end"`)} {
				if !warm {
					r.like = pattern{}
				}
				if err := (chat{}).event(r, frame{data: []byte(data)}); err != nil {
					errs = append(errs, err.Error())
				}
			}
			b, err := json.Marshal(r.Result)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(string(r.text), r.terminal, r.closed, r.failed, errs, string(b))
		}
		if with, without := read(true), read(false); with != without {
			t.Errorf("%s: with the shortcut %s, without %s", next, with, without)
		}
	}
	var p pattern
	p.learn([]byte(first), `"content":"`, "one")
	if text, ok := p.match([]byte(chunk(`" two"`))); !ok || string(text) != " two" {
		t.Errorf("a plain piece is not recognised: %q", text)
	}
}

package envelope

import (
	"fmt"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"spillway/internal/gateway"
)

// A body of nothing but names is refused before it costs a quadratic number of comparisons: at the default limit of
// 64 MiB it would keep a core busy for hours.
func TestMembersAreBounded(t *testing.T) {
	body := func(n int) []byte {
		var b strings.Builder
		b.WriteString(`{"model":"m"`)
		for i := range n {
			fmt.Fprintf(&b, `,"%07d":1`, i)
		}
		b.WriteByte('}')
		return []byte(b.String())
	}
	if _, gerr := Decode(body(maxOthers), Options{Protocol: gateway.OpenAI}); gerr != nil {
		t.Errorf("%d members: %v", maxOthers, gerr)
	}
	began := time.Now()
	_, gerr := Decode(body(1_000_000), Options{Protocol: gateway.OpenAI})
	if gerr == nil || gerr.Code != gateway.InvalidRequest || !strings.Contains(gerr.Message, "1024 members") {
		t.Errorf("a million members: %v", gerr)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("a million members took %s", took)
	}
}

// What is cut out of a conversation of many pieces costs time in proportion to its length, whatever goes and stays.
func TestUnsealManyPieces(t *testing.T) {
	const n = 200_000
	for name, c := range map[string]struct {
		p                gateway.Protocol
		head, pair, tail string
		cuts             int
	}{
		"gemini":    {gateway.Gemini, `{"contents":[{"role":"model","parts":[{"text":"a"}`, `,{"thoughtSignature":"s"},{"text":"x","thoughtSignature":"s"}`, `]}]}`, 2 * n},
		"responses": {gateway.Responses, `{"model":"m","input":[{"role":"user","content":"a"}`, `,{"type":"reasoning","encrypted_content":"s"},{"role":"user","content":"b"}`, `]}`, n},
		"anthropic": {gateway.Anthropic, `{"model":"m","messages":[{"role":"assistant","content":[{"type":"text","text":"a"}`, `,{"type":"thinking","signature":"s"},{"type":"text","text":"b"}`, `]}]}`, n},
		"one run":   {gateway.Responses, `{"model":"m","input":[{"role":"user","content":"a"}`, `,{"type":"reasoning","encrypted_content":"s"}`, `]}`, 1},
	} {
		o := Options{Protocol: c.p}
		if c.p == gateway.Gemini {
			o.Model = "m"
		}
		e, gerr := Decode([]byte(c.head+strings.Repeat(c.pair, n)+c.tail), o)
		if gerr != nil {
			t.Fatal(name, gerr)
		}
		began := time.Now()
		cuts, _ := Unseal(e, "gemini-2", func(gateway.Seal) bool { return true })
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: %s", name, took)
		}
		at := 0
		for _, cut := range cuts {
			if cut.Start < at || cut.End < cut.Start {
				t.Fatalf("%s: a cut at %d goes back behind %d", name, cut.Start, at)
			}
			at = cut.End
		}
		if len(cuts) != c.cuts {
			t.Errorf("%s: %d cuts, want %d", name, len(cuts), c.cuts)
		}
	}
}

// Whatever elements go, what is left is the list of those that stay.
func TestRemoval(t *testing.T) {
	check := func(gone []bool) bool {
		var all, stay []string
		for i, g := range gone {
			text := fmt.Sprintf(`{"n":%d}`, i)
			if all = append(all, text); !g {
				stay = append(stay, text)
			}
		}
		raw := "[" + strings.Join(all, " , ") + " ]"
		u, at := &unsealer{}, 1
		var x removal
		for i, g := range gone {
			x.next(u, gateway.Span{Start: at, End: at + len(all[i])}, g)
			at += len(all[i]) + len(" , ")
		}
		if left := x.end(u); left != (len(stay) > 0) {
			return false
		} else if !left {
			return true
		}
		b := Apply(&gateway.Envelope{Raw: []byte(raw)}, Edit{Cuts: u.cuts})
		return string(b.Bytes()) == "["+strings.Join(stay, " , ")+" ]"
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}

// A form in which another reader may find another model is refused: a key that may use one model could be checked for
// that one and billed for the other.
func TestFormsWithTwoReadings(t *testing.T) {
	const cheap = "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ncheap\r\n"
	for name, other := range map[string]string{
		"a broken parameter":      "--x\r\nContent-Disposition: form-data; name=\"model\"; x\r\n\r\ndear\r\n",
		"two dispositions":        "--x\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\ndear\r\n",
		"a folded line":           "--x\r\nContent-Disposition: form-data;\r\n name=\"model\"\r\n\r\ndear\r\n",
		"a line feed alone":       "--x\r\nX-A: b\nContent-Disposition: form-data; name=\"model\"\r\n\r\ndear\r\n",
		"a boundary behind a LF":  "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\n--x\nContent-Disposition: form-data; name=\"model\"\n\ndear\r\n",
		"an extended name":        "--x\r\nContent-Disposition: form-data; name*=utf-8''model\r\n\r\ndear\r\n",
		"a broken extended name":  "--x\r\nContent-Disposition: form-data; name*=utf-8''m%6fdel; x\r\n\r\ndear\r\n",
		"a carriage return alone": "--x\r\nX-A: b\rContent-Disposition: form-data; name=\"model\"\r\n\r\ndear\r\n",
	} {
		for _, body := range []string{cheap + other + "--x--\r\n", other + cheap + "--x--\r\n"} {
			e, gerr := DecodeForm([]byte(body), "multipart/form-data; boundary=x", Options{})
			if gerr == nil || gerr.Code != gateway.InvalidRequest {
				t.Errorf("%s: taken as %+v", name, e)
			}
		}
	}
}

// Readers that do not look at case, as Go's own, would take the second name for the model that counts.
func TestModelInAnotherCase(t *testing.T) {
	for _, body := range []string{`{"model":"cheap","Model":"dear"}`, `{"MODEL":"dear","model":"cheap"}`, `{"model":"cheap","m\u004fdel":"dear"}`} {
		if e, gerr := Decode([]byte(body), Options{Protocol: gateway.OpenAI}); gerr == nil || gerr.Param != "model" {
			t.Errorf("%s: %+v", body, e)
		}
	}
	if _, gerr := Decode([]byte(`{"model":"m","mode1":1,"Modes":2}`), Options{Protocol: gateway.OpenAI}); gerr != nil {
		t.Error(gerr)
	}
}

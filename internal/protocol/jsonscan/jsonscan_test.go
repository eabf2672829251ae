package jsonscan

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

var texts = []string{
	`{}`, `[]`, ` { "a" : [ 1 , 2.5e-3 , -0 , true , false , null , "x\n\u00e9" ] } `, `"long string with 16 or more bytes \" inside"`, `0`, `-1`, `1e400`,
	`{"a":{"b":{"c":[[[]]]}}}`, "\"\u00e9\U0001F40E\"", `[1,2,3]`, `{"a":1,"a":2}`,
	``, `{`, `[`, `{"a"}`, `{"a":}`, `{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `01`, `-`, `1.`, `1e`, `.5`, `+1`, `tru`, `nul`, `nullx`, `"\x"`, `"\u12g4"`, `"\u12`, `"`, `"abc`, "\"a\tb\"", "\"aaaaaaaaaaaa\nb\"",
	`{"a":1}{"b":2}`, `[1 2]`, `{"a":1 "b":2}`, `{a:1}`, `'a'`, `{"broken`, `]`, `}`, `[}`, `{]`, `[1}`, `{"a":1]`,
}

func valid(b []byte) bool {
	c := New(b)
	c.Skip()
	return c.Done()
}

func TestValidity(t *testing.T) {
	for _, s := range texts {
		if got, want := valid([]byte(s)), json.Valid([]byte(s)); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
	deep := strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)
	if valid([]byte(deep)) || !valid([]byte(deep[1:len(deep)-1])) {
		t.Error("the depth limit is not where it should be")
	}
}

func TestWalk(t *testing.T) {
	c := New([]byte(` {"n": 12, "s":"a\"b", "o":{"x":[true,{"y":"z"}], "e":{}}, "f": 1.9e1, "q":"7", "t":true, "z":null, "big":99999999999999999999} `))
	if !c.Object() {
		t.Fatal("no object")
	}
	var seen strings.Builder
	for key, ok := c.Member(); ok; key, ok = c.Member() {
		seen.WriteString(string(key) + " ")
		switch string(key) {
		case "n", "f", "q":
			if n, ok := c.Int(); !ok || n != map[string]int{"n": 12, "f": 19, "q": 7}[string(key)] {
				t.Errorf("%s = %d %v", key, n, ok)
			}
		case "s":
			if s := c.Text(); string(s) != `a\"b` || Unquote(s) != `a"b` {
				t.Errorf("s = %q", s)
			}
		case "o":
			if c.Object() {
				for k, ok := c.Member(); ok; k, ok = c.Member() {
					if string(k) == "e" && c.Filled() {
						t.Error("an empty object is filled")
					}
					if string(k) == "x" && string(c.Raw()) != `[true,{"y":"z"}]` {
						t.Error("raw value")
					}
				}
			}
		case "t":
			if !c.Bool() {
				t.Error("t")
			}
		case "z":
			if c.Text() != nil || c.Bad() {
				t.Error("z")
			}
		case "big":
			if _, ok := c.Int(); ok {
				t.Error("a number beyond 2^53 was read")
			}
		}
	}
	if !c.Done() || seen.String() != "n s o f q t z big " {
		t.Errorf("done %v, saw %s", c.Done(), seen.String())
	}
}

func TestFilled(t *testing.T) {
	for s, want := range map[string]bool{`""`: false, `"x"`: true, `[]`: false, `[ ]`: false, `[0]`: true, `{}`: false, `{"a":1}`: true, `null`: false, `true`: true, `false`: false, `0`: true, `x`: false} {
		c := New([]byte(s))
		if c.Filled() != want {
			t.Errorf("%s: want %v", s, want)
		}
	}
}

func TestAppendString(t *testing.T) {
	for _, s := range []string{"", "plain", "q\"b\\n\n\r\t\x01\x1f", "é🐎", "bad\xff\xfeend", "<&>"} {
		var back string
		b := AppendString(nil, s)
		if err := json.Unmarshal(b, &back); err != nil || back != strings.ToValidUTF8(s, "\uFFFD") && utf8.ValidString(s) {
			t.Errorf("%q -> %s -> %q %v", s, b, back, err)
		}
	}
}

// FuzzCursor: the cursor accepts what encoding/json accepts, the depth limit aside, and strings survive.
func FuzzCursor(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := valid(b), json.Valid(b); got != want && strings.Count(string(b), "[")+strings.Count(string(b), "{") <= maxDepth {
			t.Fatalf("%q: %v, want %v", b, got, want)
		}
		c := New(b)
		if c.Kind() == String {
			if raw := c.Text(); raw != nil && c.Done() {
				var want string
				if err := json.Unmarshal(b, &want); err != nil || Unquote(raw) != want {
					t.Fatalf("%q: %q, want %q", b, Unquote(raw), want)
				}
			}
		}
		q := AppendString(nil, string(b))
		if !valid(q) || !json.Valid(q) {
			t.Fatalf("%q quoted is %q", b, q)
		}
	})
}

func BenchmarkSkip(b *testing.B) {
	data := []byte(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"hello"},"finish_reason":null}]}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if !valid(data) {
			b.Fatal()
		}
	}
}

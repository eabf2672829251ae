package sse

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// told is an Event with its own memory.
type told struct {
	Raw, Name, Data string
	Named, HasData  bool
	Stray           bool
}

func tell(ev Event) told {
	return told{Raw: string(ev.Raw), Name: string(ev.Name), Data: string(ev.Data), Named: ev.Name != nil, HasData: ev.Data != nil, Stray: ev.Stray}
}

// drain reads everything, one Fill at a time.
func drain(t testing.TB, r *Reader) (out []told, rest string, err error) {
	t.Helper()
	for idle := 0; ; {
		n, ferr := r.Fill()
		for {
			ev, ok, nerr := r.Next()
			if nerr != nil {
				return out, string(r.Rest()), nerr
			}
			if !ok {
				break
			}
			if ev.Comment != (ev.Data == nil) {
				t.Fatalf("Comment %v with data %q", ev.Comment, ev.Data)
			}
			out = append(out, tell(ev))
		}
		if ferr == io.EOF {
			return out, string(r.Rest()), nil
		}
		if ferr != nil {
			return out, string(r.Rest()), ferr
		}
		if idle++; n > 0 {
			idle = 0
		}
		if idle > 100 {
			t.Fatal("no progress")
		}
	}
}

// pieces is a source that hands out the given lengths in turn.
type pieces struct {
	data string
	size func() int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.data == "" {
		return 0, io.EOF
	}
	n := min(max(p.size(), 1), len(b), len(p.data))
	copy(b, p.data[:n])
	p.data = p.data[n:]
	return n, nil
}

// reference is a slow parser written from the standard, line by line over the whole input. It only tells what a client
// would dispatch: pairs of name and data.
func reference(in string) (out [][2]string) {
	in = strings.TrimPrefix(in, "\xEF\xBB\xBF")
	var name string
	var data []string
	for {
		i := strings.IndexAny(in, "\r\n")
		if i < 0 {
			return out
		}
		line := in[:i]
		if strings.HasPrefix(in[i:], "\r\n") {
			i++
		}
		in = in[i+1:]
		switch key, value, colon := strings.Cut(line, ":"); {
		case line == "":
			if data != nil {
				out = append(out, [2]string{name, strings.Join(data, "\n")})
			}
			name, data = "", nil
		case colon && key == "":
		case key == "event":
			name = strings.TrimPrefix(value, " ")
		case key == "data":
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
}

func dispatched(events []told) (out [][2]string) {
	for _, ev := range events {
		if ev.HasData {
			out = append(out, [2]string{ev.Name, ev.Data})
		}
	}
	return out
}

var streams = []struct {
	name, in string
	want     []told
	rest     string
}{
	{"plain", "data: {\"a\":1}\n\ndata: [DONE]\n\n", []told{
		{Raw: "data: {\"a\":1}\n\n", Data: `{"a":1}`, HasData: true},
		{Raw: "data: [DONE]\n\n", Data: "[DONE]", HasData: true}}, ""},
	{"named", "event: ping\ndata: {}\n\n", []told{{Raw: "event: ping\ndata: {}\n\n", Name: "ping", Data: "{}", Named: true, HasData: true}}, ""},
	{"crlf", "event: e\r\ndata: x\r\n\r\n", []told{{Raw: "event: e\r\ndata: x\r\n\r\n", Name: "e", Data: "x", Named: true, HasData: true}}, ""},
	{"cr", "data: x\r\rdata: y\r\r", []told{{Raw: "data: x\r\r", Data: "x", HasData: true}, {Raw: "data: y\r\r", Data: "y", HasData: true}}, ""},
	{"cr then lf", "data: x\r\r\ndata: y\n\n", []told{{Raw: "data: x\r\r", Data: "x", HasData: true}, {Raw: "\ndata: y\n\n", Data: "y", HasData: true}}, ""},
	{"lf then cr", "data: x\n\rdata: y\n\r\n", []told{{Raw: "data: x\n\r", Data: "x", HasData: true}, {Raw: "data: y\n\r\n", Data: "y", HasData: true}}, ""},
	{"cr at the end", "data: x\r\n\r", []told{{Raw: "data: x\r\n\r", Data: "x", HasData: true}}, ""},
	{"bom", "\xEF\xBB\xBFdata: x\n\n\xEF\xBB\xBFdata: y\n\n", []told{
		{Raw: "\xEF\xBB\xBFdata: x\n\n", Data: "x", HasData: true}, {Raw: "\xEF\xBB\xBFdata: y\n\n"}}, ""},
	{"no space", "data:x\n\ndata:  y\n\n", []told{{Raw: "data:x\n\n", Data: "x", HasData: true}, {Raw: "data:  y\n\n", Data: " y", HasData: true}}, ""},
	{"joined", "data: a\ndata\ndata:b\nid: 7\nretry: 1\n\n", []told{{Raw: "data: a\ndata\ndata:b\nid: 7\nretry: 1\n\n", Data: "a\n\nb", HasData: true}}, ""},
	{"empty data", "data\n\ndata:\n\n", []told{{Raw: "data\n\n", HasData: true}, {Raw: "data:\n\n", HasData: true}}, ""},
	{"other fields", "datax: 1\nevents: 2\nxdata: 3\n\n", []told{{Raw: "datax: 1\nevents: 2\nxdata: 3\n\n"}}, ""},
	{"last name wins", "event: a\nevent: b\ndata: x\n\n", []told{{Raw: "event: a\nevent: b\ndata: x\n\n", Name: "b", Data: "x", Named: true, HasData: true}}, ""},
	{"blank lines", "\n\ndata: x\n\n", []told{{Raw: "\n"}, {Raw: "\n"}, {Raw: "data: x\n\n", Data: "x", HasData: true}}, ""},
	{"name alone", "event: x\n\n", []told{{Raw: "event: x\n\n", Name: "x", Named: true}}, ""},
	{"stray json", "{\"error\":{\n\"code\":500}}\n\n", []told{{Raw: "{\"error\":{\n\"code\":500}}\n\n", Stray: true}}, ""},
	{"tail", "data: x\n\ndata: y\n", []told{{Raw: "data: x\n\n", Data: "x", HasData: true}}, "data: y\n"},
	{"utf-8", "data: žluťoučký 🐎\n\n", []told{{Raw: "data: žluťoučký 🐎\n\n", Data: "žluťoučký 🐎", HasData: true}}, ""},
	{"nothing", "", nil, ""},
}

func TestReaderTable(t *testing.T) {
	for _, tc := range streams {
		t.Run(tc.name, func(t *testing.T) {
			for name, src := range map[string]io.Reader{"whole": strings.NewReader(tc.in), "1 byte": iotest.OneByteReader(strings.NewReader(tc.in)),
				"half": iotest.HalfReader(strings.NewReader(tc.in)), "data with EOF": iotest.DataErrReader(strings.NewReader(tc.in))} {
				got, rest, err := drain(t, NewReader(src, 0))
				if err != nil || rest != tc.rest {
					t.Errorf("%s: rest %q, error %v", name, rest, err)
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Errorf("%s: %s", name, d)
				}
			}
		})
	}
}

// TestP92Comments: a keep-alive of another service is a comment, whole, and never data.
func TestP92Comments(t *testing.T) {
	in := ": OPENROUTER PROCESSING\n\n: ping - 2\n\ndata: {}\n\n: mixed\ndata: 1\n\n"
	got, _, err := drain(t, NewReader(strings.NewReader(in), 0))
	want := []told{{Raw: ": OPENROUTER PROCESSING\n\n"}, {Raw: ": ping - 2\n\n"}, {Raw: "data: {}\n\n", Data: "{}", HasData: true},
		{Raw: ": mixed\ndata: 1\n\n", Data: "1", HasData: true}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Fatal(d, err)
	}
}

// TestP94EverySplit: the same stream, cut in two at every place and in pieces of every size, gives the same events.
func TestP94EverySplit(t *testing.T) {
	for _, tc := range streams {
		for cut := range len(tc.in) + 1 {
			src := io.MultiReader(strings.NewReader(tc.in[:cut]), strings.NewReader(tc.in[cut:]))
			got, rest, err := drain(t, NewReader(src, 0))
			if d := cmp.Diff(tc.want, got); d != "" || rest != tc.rest || err != nil {
				t.Fatalf("%s cut at %d: %s rest %q err %v", tc.name, cut, d, rest, err)
			}
		}
	}
	var whole strings.Builder
	for _, tc := range streams {
		whole.WriteString(tc.in + "\n\n")
	}
	want := reference(whole.String())
	for size := 1; size < 64; size++ {
		got, _, _ := drain(t, NewReader(&pieces{whole.String(), func() int { return size }}, 0))
		if d := cmp.Diff(want, dispatched(got)); d != "" {
			t.Fatalf("pieces of %d: %s", size, d)
		}
	}
}

// TestBareCRIsNotHeldBack: an event that ends in two bare CR, or in CRLF CRLF, is there with its last byte.
func TestBareCRIsNotHeldBack(t *testing.T) {
	for _, in := range []string{"data: x\r\r", "data: x\r\n\r\n", "data: x\n\n"} {
		r := NewReader(iotest.OneByteReader(io.MultiReader(strings.NewReader(in), strings.NewReader("d"))), 0)
		for i := range len(in) {
			if _, err := r.Fill(); err != nil {
				t.Fatal(err)
			}
			if _, ok, _ := r.Next(); ok != (i == len(in)-1) {
				t.Fatalf("%q: event after byte %d: %v", in, i+1, ok)
			}
		}
	}
}

// TestP95LongLine: a 5 MB data line goes through, whole and linear in time even when it arrives in small reads.
func TestP95LongLine(t *testing.T) {
	line := strings.Repeat("x", 5<<20)
	in := "data: " + line + "\n\ndata: y\n\n"
	r := NewReader(&pieces{in, func() int { return 1460 }}, 0)
	got, _, err := drain(t, r)
	if err != nil || len(got) != 2 || got[0].Data != line || got[1].Data != "y" {
		t.Fatalf("%d events, %v", len(got), err)
	}
	r.Reset(strings.NewReader("data: z\n\n"))
	if len(r.buf) > keepBuffer {
		t.Errorf("a buffer of %d bytes is kept for the next stream", len(r.buf))
	}
}

func TestBigBufferIsGivenBack(t *testing.T) {
	var turn int
	r := NewReader(&pieces{"data: " + strings.Repeat("x", 1<<20) + "\n\n" + strings.Repeat("data: y\n\n", 10), func() int {
		turn++
		return 32 << 10
	}}, 0)
	if _, _, err := drain(t, r); err != nil {
		t.Fatal(err)
	}
	if len(r.buf) > keepBuffer {
		t.Errorf("still %d bytes", len(r.buf))
	}
}

func TestTooLong(t *testing.T) {
	const limit = 100
	for _, n := range []int{limit - 9, limit - 8, limit - 7, 5000, 50000} {
		in := "data: ok\n\ndata: " + strings.Repeat("x", n) + "\n\n"
		for _, size := range []int{1, 7, 1 << 20} {
			got, _, err := drain(t, NewReader(&pieces{in, func() int { return size }}, limit))
			fits := n+8 <= limit
			if fits && (err != nil || len(got) != 2) || !fits && (!errors.Is(err, ErrTooLong) || len(got) != 1) {
				t.Errorf("%d bytes of data in pieces of %d: %d events, %v", n, size, len(got), err)
			}
		}
	}
	r := NewReader(strings.NewReader(strings.Repeat("x", 10000)), limit)
	for range 3 {
		r.Fill()
		if _, _, err := r.Next(); !errors.Is(err, ErrTooLong) {
			t.Fatal(err)
		}
	}
}

func TestSourceErrors(t *testing.T) {
	boom := errors.New("boom")
	r := NewReader(io.MultiReader(strings.NewReader("data: x\n\ndata: y"), iotest.ErrReader(boom)), 0)
	got, rest, err := drain(t, r)
	if !errors.Is(err, boom) || len(got) != 1 || rest != "data: y" {
		t.Fatalf("%v %q %v", got, rest, err)
	}
	if _, err := NewReader(liar{}, 0).Fill(); err == nil {
		t.Fatal("an impossible count passes")
	}
	if n, err := NewReader(iotest.ErrReader(nil), 0).Fill(); n != 0 || err != nil {
		t.Fatal(n, err)
	}
}

type liar struct{}

func (liar) Read(b []byte) (int, error) { return len(b) + 1, nil }

func TestNoAllocation(t *testing.T) {
	in := strings.Repeat("event: e\ndata: {\"delta\":\"hello\"}\n\n", 1000)
	src := strings.NewReader(in)
	r := NewReader(src, 0)
	r.Fill()
	if n := testing.AllocsPerRun(20, func() {
		src.Reset(in)
		r.Reset(src)
		for {
			_, err := r.Fill()
			for _, ok, _ := r.Next(); ok; _, ok, _ = r.Next() {
			}
			if err != nil {
				return
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzReader(f *testing.F) {
	for _, tc := range streams {
		f.Add(tc.in, uint64(len(tc.in)))
	}
	f.Add("data: a\r\n\r\r\n\n\r\rdata: b\r\r\n\r\n", uint64(3))
	f.Fuzz(func(t *testing.T, in string, seed uint64) {
		whole, rest, err := drain(t, NewReader(strings.NewReader(in), 0))
		if err != nil {
			t.Fatal(err)
		}
		var raw bytes.Buffer
		for _, ev := range whole {
			raw.WriteString(ev.Raw)
		}
		if raw.String()+rest != in {
			t.Fatalf("bytes lost: %q + %q != %q", raw.String(), rest, in)
		}
		if d := cmp.Diff(reference(in), dispatched(whole)); d != "" {
			t.Fatal(d)
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		for _, size := range []func() int{func() int { return 1 }, func() int { return 1 + rng.IntN(9) }} {
			split, srest, _ := drain(t, NewReader(&pieces{in, size}, 0))
			if d := cmp.Diff(whole, split); d != "" || srest != rest {
				t.Fatal(d)
			}
		}
	})
}

func BenchmarkNext(b *testing.B) {
	in := strings.Repeat("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"},\"finish_reason\":null}]}\n\n", 1000)
	src := strings.NewReader(in)
	r := NewReader(src, 0)
	b.ReportAllocs()
	b.SetBytes(int64(len(in) / 1000))
	left := 0
	for b.Loop() {
		for {
			if _, ok, _ := r.Next(); ok {
				break
			}
			if _, err := r.Fill(); err != nil {
				src.Reset(in)
				r.Reset(src)
			}
		}
		left++
	}
}

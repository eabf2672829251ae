package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
	"testing/iotest"
)

func TestChunkedReadsWhatNetHTTPReads(t *testing.T) {
	long := strings.Repeat("data: {\"a\":1}\n\n", 2000)
	tests := []string{
		"0\r\n\r\n",
		"5\r\nhello\r\n0\r\n\r\n",
		"5;ext=1\r\nhello\r\n6 \r\n world\r\n0\r\nX-Trailer: a\r\nY: b\r\n\r\n",
		"5\nhello\n0\n\n",
		"A\r\n0123456789\r\na\r\n0123456789\r\n00\r\n\r\n",
		"7530\r\n" + long + "\r\n1\r\nx\r\n0\r\n\r\n",
		// broken ones
		"", "5", "5\r\n", "5\r\nhel", "5\r\nhello", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n",
		"g\r\nhello\r\n", "\r\nhello", "5\r\nhelloXX\r\n0\r\n\r\n", "-1\r\n\r\n", "5hello\r\n",
		"10000000000000000\r\nx", ";\r\n\r\n", strings.Repeat("0", 5000) + "\r\n\r\n",
	}
	for _, in := range tests {
		for name, wrap := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r },
			"bytewise": iotest.OneByteReader, "halves": iotest.HalfReader, "with end": iotest.DataErrReader} {
			want, wantErr := io.ReadAll(httputil.NewChunkedReader(bufio.NewReaderSize(wrap(strings.NewReader(in)), readBuf)))
			got, err := io.ReadAll(&chunked{r: bufio.NewReaderSize(wrap(strings.NewReader(in)), readBuf)})
			short := in[:min(40, len(in))]
			if (err == nil) != (wantErr == nil) && !strings.HasSuffix(in, "\r\n0\r\n") { // net/http reads trailers elsewhere
				t.Errorf("%s %q: %v, net/http says %v", name, short, err, wantErr)
			}
			if err == nil && !bytes.Equal(got, want) {
				t.Errorf("%s %q: read %q, net/http reads %q", name, short, got, want)
			}
			if errors.Is(err, io.EOF) {
				t.Errorf("%s %q: a cut body must not look complete", name, short)
			}
		}
	}
}

func TestChunkedReturnsWhatIsThere(t *testing.T) {
	pr, pw := io.Pipe()
	c := &chunked{r: bufio.NewReaderSize(pr, readBuf)}
	go func() {
		_, _ = pw.Write([]byte("3\r\none\r\n3\r\ntwo\r\n5\r\nth"))
		_, _ = pw.Write([]byte("ree\r\n0\r\n\r\n"))
	}()
	p := make([]byte, 100)
	var reads []string
	for {
		n, err := c.Read(p)
		if n > 0 {
			reads = append(reads, string(p[:n]))
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(reads, "|"); got != "onetwoth|ree" {
		t.Errorf("reads %s", got)
	}
}

func FuzzChunked(f *testing.F) {
	f.Add([]byte("5;x\r\nhello\r\n0\r\nT: 1\r\n\r\n"))
	f.Add([]byte("5\r\nhel"))
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err := io.ReadAll(&chunked{r: bufio.NewReaderSize(bytes.NewReader(in), readBuf)})
		split, err2 := io.ReadAll(&chunked{r: bufio.NewReaderSize(iotest.OneByteReader(bytes.NewReader(in)), readBuf)})
		if (err == nil) != (err2 == nil) || !bytes.Equal(whole, split) {
			t.Errorf("whole %q %v, bytewise %q %v", whole, err, split, err2)
		}
	})
}

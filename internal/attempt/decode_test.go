package attempt

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

type flusher interface {
	io.WriteCloser
	Flush() error
}

// encoders are the encodings that are undone.
var encoders = map[string]func(io.Writer) flusher{
	"gzip":   func(w io.Writer) flusher { return gzip.NewWriter(w) },
	"x-gzip": func(w io.Writer) flusher { return gzip.NewWriter(w) },
	"br":     func(w io.Writer) flusher { return brotli.NewWriter(w) },
	"zstd": func(w io.Writer) flusher {
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			panic(err)
		}
		return z
	},
}

func encoded(t *testing.T, encoding, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := encoders[encoding](&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type closing struct {
	io.Reader
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

func response(encoding string, body io.Reader) (*http.Response, *closing) {
	c := &closing{Reader: body}
	h := http.Header{"Content-Length": {"99"}, "Content-Type": {"application/json"}}
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	return &http.Response{Header: h, Body: c, ContentLength: 99}, c
}

// TestP97StaleContentEncoding: what was decoded is no longer announced as encoded, nor with its old length.
func TestP97StaleContentEncoding(t *testing.T) {
	text := strings.Repeat(`{"choices":[{"message":{"content":"täxt"}}]}`, 500)
	for encoding := range encoders {
		for _, name := range []string{encoding, strings.ToUpper(encoding), " " + encoding + " "} {
			res, under := response(name, bytes.NewReader(encoded(t, encoding, text)))
			body := decoded(res)
			got, err := io.ReadAll(body)
			if err != nil || string(got) != text {
				t.Errorf("%q: %d bytes, %v", name, len(got), err)
			}
			if res.Header.Get("Content-Encoding") != "" || res.Header.Get("Content-Length") != "" || res.ContentLength != -1 {
				t.Errorf("%q: stale headers %v, length %d", name, res.Header, res.ContentLength)
			}
			if err := body.Close(); err != nil || under.closed != 1 {
				t.Errorf("%q: closed %d times, %v", name, under.closed, err)
			}
		}
	}
}

// TestPlainBodies: without an encoding, or with one that is not known, the bytes stay as they are.
func TestPlainBodies(t *testing.T) {
	for _, encoding := range []string{"", "identity", "compress", "gzip, br"} {
		res, _ := response(encoding, strings.NewReader("plain"))
		got, err := io.ReadAll(decoded(res))
		if err != nil || string(got) != "plain" || res.ContentLength != 99 || res.Header.Get("Content-Encoding") != encoding {
			t.Errorf("%q: %q %v %v", encoding, got, err, res.Header)
		}
	}
}

// TestTruncatedEncoding: a body that ends inside its encoding is an error at whatever byte it ends, never a shorter
// answer.
func TestTruncatedEncoding(t *testing.T) {
	for encoding := range encoders {
		whole := encoded(t, encoding, strings.Repeat("some text and some more ", 30))
		for n := 1; n < len(whole); n++ {
			res, _ := response(encoding, bytes.NewReader(whole[:n]))
			if got, err := io.ReadAll(decoded(res)); err == nil {
				t.Errorf("%s cut at %d of %d: %d bytes and no error", encoding, n, len(whole), len(got))
			}
		}
		res, _ := response(encoding, strings.NewReader(""))
		if got, err := io.ReadAll(decoded(res)); len(got) != 0 {
			t.Errorf("%s of nothing: %q, %v", encoding, got, err)
		}
		broken := errors.New("connection reset")
		res, _ = response(encoding, io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), failing{broken}))
		if _, err := io.ReadAll(decoded(res)); err == nil {
			t.Errorf("%s: a broken connection is no error", encoding)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestGarbageForEncoding(t *testing.T) {
	for encoding := range encoders {
		res, _ := response(encoding, strings.NewReader("<html>not encoded at all, whatever the header says</html>"))
		if got, err := io.ReadAll(decoded(res)); err == nil {
			t.Errorf("%s: %q and no error", encoding, got)
		}
		res, under := response(encoding, strings.NewReader("x"))
		if err := decoded(res).Close(); err != nil || under.closed != 1 { // never read
			t.Errorf("%s: closed %d times, %v", encoding, under.closed, err)
		}
	}
}

// TestDecodedStream: an event that was flushed is there before the next one comes.
func TestDecodedStream(t *testing.T) {
	for encoding := range encoders {
		synctest.Test(t, func(t *testing.T) {
			pr, pw := io.Pipe()
			go func() {
				w := encoders[encoding](pw)
				for range 3 {
					_, _ = io.WriteString(w, "data: {}\n\n")
					_ = w.Flush()
					time.Sleep(10 * time.Second)
				}
				_ = w.Close()
				_ = pw.Close()
			}()
			res, _ := response(encoding, pr)
			body := decoded(res)
			began := time.Now()
			buf := make([]byte, 1024)
			for i := range 3 {
				n := 0
				for n < 10 {
					m, err := body.Read(buf[n:])
					if err != nil {
						t.Fatalf("%s, event %d: %v", encoding, i, err)
					}
					n += m
				}
				if at := time.Since(began); n != 10 || at != time.Duration(i)*10*time.Second {
					t.Errorf("%s: event %d (%d bytes) after %s", encoding, i, n, at)
				}
			}
			if rest, err := io.ReadAll(body); err != nil || len(rest) != 0 {
				t.Errorf("%s: %q, %v", encoding, rest, err)
			}
			_ = body.Close()
		})
	}
}

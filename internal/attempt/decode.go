package attempt

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// decoded returns the body of an answer with its content encoding undone, and removes the headers that described the
// encoded bytes: a client must never see a stale content-encoding.
func decoded(res *http.Response) io.ReadCloser {
	encoding := strings.ToLower(strings.TrimSpace(res.Header.Get("Content-Encoding")))
	switch encoding {
	case "", "identity":
		return res.Body
	case "gzip", "x-gzip", "br", "zstd":
	default:
		return res.Body
	}
	res.Header.Del("Content-Encoding")
	res.Header.Del("Content-Length")
	res.ContentLength = -1
	return &decoder{under: res.Body, encoding: encoding}
}

// decoder decodes lazily: the first Read may block on the network, and fly must be watched by then.
type decoder struct {
	under    io.ReadCloser
	encoding string
	r        io.Reader
	closer   func()
	err      error
}

func (d *decoder) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	if d.r == nil {
		if d.err = d.open(); d.err != nil {
			return 0, d.err
		}
	}
	return d.r.Read(p)
}

func (d *decoder) open() error {
	switch d.encoding {
	case "br":
		d.r = brotli.NewReader(d.under)
	case "zstd":
		z, err := zstd.NewReader(d.under, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
		if err != nil {
			return err
		}
		d.r, d.closer = z, z.Close
	default:
		z, err := gzip.NewReader(d.under)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return io.ErrUnexpectedEOF
			}
			return err
		}
		d.r = z
	}
	return nil
}

func (d *decoder) Close() error {
	if d.closer != nil {
		d.closer()
	}
	return d.under.Close()
}

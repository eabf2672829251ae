package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// serveUpstream is a provider that answers at once and costs next to nothing: what it uses is CPU that the proxies under
// test do not get. It prints its address. The request's model says what to answer:
//
//	call            a completion of 1 KB
//	stream-N-D      N chunks, D milliseconds apart
//	idle            one chunk, then silence
func serveUpstream(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	context.AfterFunc(ctx, func() { l.Close() })
	for {
		c, err := l.Accept()
		if err != nil {
			return nil
		}
		go upstreamConn(ctx, c)
	}
}

var completion = func() []byte {
	body := `{"id":"chatcmpl-bench","object":"chat.completion","created":1760000000,"model":"call","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"` + string(bytes.Repeat([]byte("lorem ipsum "), 60)) + `"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":300,"completion_tokens":180,"total_tokens":480}}`
	return []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}()

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func upstreamConn(ctx context.Context, c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(c, 64<<10)
	for {
		model, err := readRequest(r)
		if err != nil {
			return
		}
		if model == "call" {
			if _, err := c.Write(completion); err != nil {
				return
			}
			continue
		}
		var n, ms int
		if _, err := fmt.Sscanf(model, "stream-%d-%d", &n, &ms); err != nil {
			n, ms = 1, -1 // idle
		}
		if streamTo(ctx, c, n, ms) != nil {
			return
		}
	}
}

func chunk(event string) string {
	return strconv.FormatInt(int64(len(event)), 16) + "\r\n" + event + "\r\n"
}

func streamTo(ctx context.Context, c net.Conn, n, ms int) error {
	if _, err := io.WriteString(c, streamHead); err != nil {
		return err
	}
	for i := range n {
		event := chunk(`data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1760000000,"model":"m","choices":[{"index":0,"delta":{"content":" token` +
			strconv.Itoa(i) + `"},"finish_reason":null}]}` + "\n\n")
		if _, err := io.WriteString(c, event); err != nil {
			return err
		}
		if ms > 0 {
			time.Sleep(time.Duration(ms) * time.Millisecond)
		}
	}
	if ms < 0 { // silent until the other side leaves
		buf := make([]byte, 1)
		_, err := c.Read(buf)
		return err
	}
	_, err := io.WriteString(c, chunk(`data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1760000000,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\n")+
		chunk("data: [DONE]\n\n")+"0\r\n\r\n")
	return err
}

// readRequest reads one request and returns its model.
func readRequest(r *bufio.Reader) (string, error) {
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return "", err
		}
		if len(line) <= 2 {
			break
		}
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(name, []byte("content-length")) {
			length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
		}
	}
	peek, err := r.Peek(min(length, 256))
	if err != nil {
		return "", err
	}
	_, rest, _ := bytes.Cut(peek, []byte(`"model":"`))
	model, _, _ := bytes.Cut(rest, []byte(`"`))
	name := strings.TrimPrefix(string(model), "bench/") // the bare proxy leaves the provider in
	_, err = r.Discard(length)
	return name, err
}

// serveBare is the yardstick: the standard library's reverse proxy with a tuned transport and nothing else.
func serveBare(ctx context.Context, target string) error {
	u, err := url.Parse("http://" + target)
	if err != nil {
		return err
	}
	tr := http.DefaultTransport.(*http.Transport).Clone()
	tr.MaxIdleConns, tr.MaxIdleConnsPerHost, tr.DisableCompression = 0, 1024, true
	p := &httputil.ReverseProxy{Transport: tr, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) }}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	context.AfterFunc(ctx, func() { l.Close() })
	if err := http.Serve(l, p); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

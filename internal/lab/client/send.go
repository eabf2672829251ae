package client

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
)

// target is where calls go, taken apart.
type target struct {
	root, path string
	url        *url.URL
}

// send asks the transport itself: nothing may be followed, kept or repeated behind the caller's back.
func (c *Client) send(ctx context.Context, d dialect, q Request, body []byte) (*http.Response, error) {
	u, err := c.target(q, d.path(q))
	if err != nil {
		return nil, err
	}
	h := make(http.Header, 4)
	h["Content-Type"] = []string{"application/json"}
	if q.Stream {
		h["Accept"] = []string{"text/event-stream"}
	}
	d.auth(h, q.Key)
	for k, v := range q.Header {
		h.Set(k, v)
	}
	sent := &payload{}
	sent.Reset(body)
	req := http.Request{Method: http.MethodPost, URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Body: sent, ContentLength: int64(len(body))}
	resp, err := c.rt.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, &url.Error{Op: "Post", URL: u.String(), Err: err}
	}
	return resp, nil
}

// payload is the body of a request. It cannot be had a second time: a transport that repeats a request by itself would
// hide what the gateway did.
type payload struct{ bytes.Reader }

// Close implements io.Closer.
func (*payload) Close() error { return nil }

// target takes a URL apart, or knows it from the last call in that protocol.
func (c *Client) target(q Request, path string) (*url.URL, error) {
	last := &c.targets[q.Protocol]
	if t := last.Load(); t != nil && t.root == q.URL && t.path == path {
		return t.url, nil
	}
	u, err := url.Parse(strings.TrimSuffix(q.URL, "/") + path)
	if err != nil {
		return nil, err
	}
	last.Store(&target{q.URL, path, u})
	return u, nil
}

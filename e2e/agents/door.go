//go:build agents

package main

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
)

// door stands before the upstream that dies and looks for sealed reasoning in what is sent there: it belongs to another
// account, whose upstream sealed it. What dies behind the door dies before it.
type door struct {
	server *httptest.Server
	seen   atomic.Int64
}

func newDoor(to string) (*door, error) {
	target, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	d := &door{}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // it would tell of every death
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	d.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if bytes.Contains(body, []byte(sealed)) {
			d.seen.Add(1)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	}))
	return d, nil
}

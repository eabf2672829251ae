package local

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func get(ctx context.Context, n *Network, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("the body"))
	if err != nil {
		return nil, err
	}
	return n.RoundTrip(req)
}

func serve(h http.HandlerFunc) *Network {
	n := New()
	n.Add("a.lab", Host{Handler: h})
	return n
}

func TestAnswersComeAsTheyAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := serve(func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			if err != nil || string(b) != "the body" || r.Host != "a.lab" || r.URL.RawQuery != "x=1" {
				t.Errorf("%q %v %s %s", b, err, r.Host, r.URL)
			}
			w.Header().Set("X-One", "1")
			w.WriteHeader(http.StatusAccepted)
			w.Header().Set("X-Two", "too late")
			if h := w.Header(); h.Get("X-One") != "1" || h.Get("X-Two") == "" {
				t.Errorf("the handler's header is %v", h)
			}
			for _, line := range []string{"one\n", "two\n"} {
				time.Sleep(time.Second)
				io.WriteString(w, line)
			}
		})
		began := time.Now()
		res, err := get(t.Context(), n, "http://a.lab/p?x=1")
		if err != nil || res.StatusCode != http.StatusAccepted || res.Header.Get("X-One") != "1" || res.Header.Get("X-Two") != "" || time.Since(began) != 0 {
			t.Fatalf("%v %+v after %s", err, res, time.Since(began))
		}
		in := bufio.NewReader(res.Body)
		for i, want := range []string{"one\n", "two\n"} {
			if got, err := in.ReadString('\n'); got != want || err != nil || time.Since(began) != time.Duration(i+1)*time.Second {
				t.Errorf("%q %v after %s", got, err, time.Since(began))
			}
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("%v at the end", err)
		}
		res.Body.Close()
		if err := n.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func TestEndsOfConnections(t *testing.T) {
	hijack := func(w http.ResponseWriter, reset bool) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if reset {
			c.(interface{ SetLinger(int) error }).SetLinger(0)
		}
		c.Close()
	}
	for name, c := range map[string]struct {
		h    http.HandlerFunc
		head error // of RoundTrip
		body error
	}{
		"cut before headers":   {func(w http.ResponseWriter, _ *http.Request) { hijack(w, false) }, io.EOF, nil},
		"reset before headers": {func(w http.ResponseWriter, _ *http.Request) { hijack(w, true) }, syscall.ECONNRESET, nil},
		"cut in the body": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "half")
			hijack(w, false)
		}, nil, io.ErrUnexpectedEOF},
		"reset in the body": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "half")
			hijack(w, true)
		}, nil, syscall.ECONNRESET},
		"aborted": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "half")
			panic(http.ErrAbortHandler)
		}, nil, io.ErrUnexpectedEOF},
		"nothing written": {func(http.ResponseWriter, *http.Request) {}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := serve(c.h)
			res, err := get(t.Context(), n, "http://a.lab/")
			if !errors.Is(err, c.head) {
				t.Fatalf("%v, want %v", err, c.head)
			}
			if err == nil {
				if _, err := io.ReadAll(res.Body); !errors.Is(err, c.body) {
					t.Errorf("body ends with %v, want %v", err, c.body)
				}
			}
			if err := n.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAClientThatLeaves(t *testing.T) {
	left := errors.New("left")
	for name, leave := range map[string]func(*http.Response, context.CancelCauseFunc){
		"by closing":    func(res *http.Response, _ context.CancelCauseFunc) { res.Body.Close() },
		"by cancelling": func(_ *http.Response, cancel context.CancelCauseFunc) { cancel(left) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen, wrote error
				n := serve(func(w http.ResponseWriter, r *http.Request) {
					http.NewResponseController(w).Flush()
					<-r.Context().Done()
					seen = r.Context().Err()
					_, wrote = io.WriteString(w, "to nobody")
				})
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				res, err := get(ctx, n, "http://a.lab/")
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				leave(res, cancel)
				n.Wait()
				if seen == nil || wrote == nil {
					t.Errorf("the handler saw %v and wrote with %v", seen, wrote)
				}
				if _, err := res.Body.Read(make([]byte, 1)); name == "by cancelling" && !errors.Is(err, left) {
					t.Errorf("read: %v", err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // before the headers
		n := serve(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, left)
		defer cancel()
		if _, err := get(ctx, n, "http://a.lab/"); !errors.Is(err, left) {
			t.Errorf("%v", err)
		}
		n.Wait()
	})
}

func TestConnections(t *testing.T) {
	refused := errors.New("no more")
	n := New()
	dialled := 0
	n.Add("a.lab", Host{Handler: http.NotFoundHandler(), Dial: func(_ context.Context, open int) error {
		dialled++
		if open > 1 {
			return refused
		}
		return nil
	}})
	for range 3 {
		res, err := get(t.Context(), n, "http://a.lab/")
		if err != nil || res.StatusCode != http.StatusNotFound {
			t.Fatal(res, err)
		}
		io.Copy(io.Discard, res.Body)
		n.Wait()
	}
	if dialled != 1 {
		t.Errorf("%d connections for three requests one after the other", dialled)
	}
	n.CloseIdleConnections()
	if _, err := get(t.Context(), n, "http://a.lab/"); err != nil || dialled != 2 {
		t.Errorf("%v, %d connections", err, dialled)
	}
	n.Wait()
	if _, err := get(t.Context(), n, "http://b.lab/"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("an unknown host: %v", err)
	}
}

func TestPanicsAreTold(t *testing.T) {
	n := serve(func(http.ResponseWriter, *http.Request) { panic("oh") })
	if _, err := get(t.Context(), n, "http://a.lab/"); err == nil {
		t.Error("an answer came")
	}
	if err := n.Wait(); err == nil || !strings.Contains(err.Error(), "oh") {
		t.Errorf("%v", err)
	}
}

func TestAddresses(t *testing.T) {
	n := New()
	n.Travel = time.Millisecond
	n.Add("127.0.0.1:4000", Host{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		addr, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if addr == nil || addr.Port != 4000 || r.RemoteAddr == "" {
			t.Errorf("%v %q", addr, r.RemoteAddr)
		}
	})})
	if _, err := get(t.Context(), n, "http://127.0.0.1:4000/"); err != nil {
		t.Error(err)
	}
	n.Wait()
}

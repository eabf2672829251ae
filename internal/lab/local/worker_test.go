package local

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestWorkersServeOneAfterTheOther: exchanges one after the other need one goroutine, and Wait ends it; the bubble would
// tell of one that stays.
func TestWorkersServeOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := serve(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
		for round := range 2 {
			for range 10 {
				res, err := get(t.Context(), n, "http://a.lab/")
				if err != nil {
					t.Fatal(err)
				}
				if b, err := io.ReadAll(res.Body); string(b) != "the body" || err != nil {
					t.Errorf("%q %v", b, err)
				}
				res.Body.Close()
				synctest.Wait()
				if len(n.idle) != 1 {
					t.Errorf("%d idle workers", len(n.idle))
				}
			}
			if err := n.Wait(); err != nil || n.idle != nil {
				t.Errorf("round %d: %v, %d idle workers", round, err, len(n.idle))
			}
		}
	})
}

// TestHandlersThatEndTheirGoroutine: such a handler ends its answer and takes its worker along.
func TestHandlersThatEndTheirGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := serve(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "half")
			if r.URL.Path == "/exit" {
				runtime.Goexit()
			}
		})
		for _, path := range []string{"exit", "", "exit", ""} {
			res, err := get(t.Context(), n, "http://a.lab/"+path)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(res.Body); string(b) != "half" || err != nil {
				t.Errorf("%q %v", b, err)
			}
			synctest.Wait()
			if want := 1 - len(path)/4; len(n.idle) != want {
				t.Errorf("/%s: %d idle workers, want %d", path, len(n.idle), want)
			}
		}
		n.Wait()
	})
}

// TestAnswersKeepApart: the memory of an answer serves another one only when both sides have done with it, whichever is
// the first, and whether the client reads to the end or leaves.
func TestAnswersKeepApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := serve(func(w http.ResponseWriter, r *http.Request) {
			for range 8 {
				if _, err := io.WriteString(w, strings.Repeat(r.URL.Query().Get("say"), 100)); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
		var clients sync.WaitGroup
		for c := range 8 {
			clients.Go(func() {
				for i := range 20 {
					say := fmt.Sprintf("<%d-%d>", c, i)
					res, err := get(t.Context(), n, "http://a.lab/?say="+say)
					if err != nil {
						t.Error(err)
						return
					}
					part := 100 * len(say)
					want := strings.Repeat(say, 800)
					if (c+i)%3 == 0 {
						res.Body = struct {
							io.Reader
							io.Closer
						}{io.LimitReader(res.Body, int64(part)), res.Body}
						want = want[:part]
					}
					if b, err := io.ReadAll(res.Body); string(b) != want || err != nil {
						t.Errorf("%s: another answer, %v", say, err)
					}
					res.Body.Close()
					res.Body.Close()
					if k, err := res.Body.Read(make([]byte, 1)); k > 0 && (c+i)%3 != 0 {
						t.Errorf("%s: something is read behind the end: %v", say, err)
					}
				}
			})
		}
		clients.Wait()
		if err := n.Wait(); err != nil {
			t.Error(err)
		}
	})
}

package local

import (
	"math/rand/v2"
	"net/http"
	"time"
)

// worker is a goroutine that handlers run on, one after the other: how to hand it the next. It keeps the stack that it
// has grown; a goroutine per exchange would grow one each time, copying what is on it.
type worker chan job

// job is a request for a handler.
type job struct {
	x  *exchange
	in *http.Request
}

// run has a worker serve an exchange.
func (n *Network) run(x *exchange, in *http.Request) {
	n.served.Add(1)
	n.mu.Lock()
	var w worker
	if last := len(n.idle) - 1; last >= 0 {
		w, n.idle = n.idle[last], n.idle[:last]
	}
	n.mu.Unlock()
	if w == nil {
		w = make(worker, 1)
		n.workers.Go(func() {
			for j := range w {
				n.serve(w, j)
			}
		})
	}
	w <- job{x, in}
}

// serve runs the handler of an exchange on worker w.
func (n *Network) serve(w worker, j job) {
	x := j.x
	returned := false
	defer func() {
		p := recover()
		x.cancel()
		reuse := x.end(p, n.note)
		n.mu.Lock()
		x.host.close(reuse)
		if returned || p != nil { // else the handler has ended the goroutine
			n.idle = append(n.idle, w)
		}
		n.mu.Unlock()
		n.served.Done()
	}()
	if n.Travel > 0 {
		time.Sleep(n.Travel/2 + rand.N(n.Travel))
	}
	x.host.Handler.ServeHTTP(x, j.in)
	returned = true
}

// Wait returns when no handler runs, with the first panic of one as an error. It ends all goroutines of the network,
// which can be used again.
func (n *Network) Wait() error {
	n.served.Wait()
	n.mu.Lock()
	idle, err := n.idle, n.broken
	n.idle = nil
	n.mu.Unlock()
	for _, w := range idle {
		close(w)
	}
	n.workers.Wait()
	return err
}

package gateway

import (
	"net/http"
	"time"
)

// Answer is the head of an answer: all of it when it is not streamed.
type Answer struct {
	Status    int
	Header    http.Header // the upstream's, unfiltered
	Stream    bool
	Body      []byte
	Candidate Candidate
	Attempts  int
	Overhead  time.Duration // time that was not spent waiting for an upstream
	Dropped   []string      // what of the request did not go upstream, by name; nil = all of it did
}

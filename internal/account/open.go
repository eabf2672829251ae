package account

import (
	"sync"

	"spillway/internal/gateway"
)

// openSet holds the intents of requests that have not ended, by id, in shards so that requests do not meet at one lock.
type openSet struct {
	shards [32]struct {
		mu sync.Mutex
		m  map[gateway.RequestID][]byte
	}
}

func (s *openSet) init() {
	for i := range s.shards {
		s.shards[i].m = map[gateway.RequestID][]byte{}
	}
}

func (s *openSet) shard(id gateway.RequestID) int {
	if id == "" {
		return 0
	}
	return int(id[len(id)-1]) % len(s.shards) // the end of an id is random
}

func (s *openSet) put(id gateway.RequestID, rec []byte) {
	sh := &s.shards[s.shard(id)]
	sh.mu.Lock()
	sh.m[id] = rec
	sh.mu.Unlock()
}

func (s *openSet) remove(id gateway.RequestID) {
	sh := &s.shards[s.shard(id)]
	sh.mu.Lock()
	delete(sh.m, id)
	sh.mu.Unlock()
}

func (s *openSet) get(id gateway.RequestID) []byte {
	sh := &s.shards[s.shard(id)]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.m[id]
}

func (s *openSet) len() (n int) {
	for i := range s.shards {
		s.shards[i].mu.Lock()
		n += len(s.shards[i].m)
		s.shards[i].mu.Unlock()
	}
	return n
}

// each calls fn for every intent, outside the locks. Records are never changed once they are in the set.
func (s *openSet) each(fn func(rec []byte)) {
	var recs [][]byte
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for _, rec := range sh.m {
			recs = append(recs, rec)
		}
		sh.mu.Unlock()
	}
	for _, rec := range recs {
		fn(rec)
	}
}

package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/store"
	"spillway/internal/store/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return store.Memory() })
}

func TestMemoryIsBounded(t *testing.T) {
	s := store.Memory()
	for i := range 3 * store.MemoryRequests / 100 {
		b := store.Batch{}
		for k := range 100 {
			b.Requests = append(b.Requests, store.Request{ID: gateway.RequestID(fmt.Sprintf("req_%d_%d", i, k)), EndedAt: time.Unix(int64(i), 0)})
		}
		if err := s.Put(context.Background(), &b); err != nil {
			t.Fatal(err)
		}
	}
	kept := 0
	for f := (store.Filter{Limit: 1000}); ; {
		page, err := s.Requests(context.Background(), f)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		kept += len(page)
		f.After = page[len(page)-1].Cursor
	}
	if kept < store.MemoryRequests || kept > store.MemoryRequests*21/20 {
		t.Errorf("kept %d requests", kept)
	}
}

package affinity

import (
	"container/list"
	"slices"
	"time"
)

// table is a bounded map from keys to values in order of use; the longest unused goes first.
type table[V any] struct {
	limit   int
	entries map[Key]*list.Element // of *entry[V]
	order   list.List             // newest first
}

type entry[V any] struct {
	key    Key
	value  V
	keptAt time.Time // of the last record; zero = the store knows nothing of it
}

func newTable[V any](limit int) *table[V] {
	return &table[V]{limit: limit, entries: map[Key]*list.Element{}}
}

// find returns the entry of a key, nil when there is none.
func (t *table[V]) find(k Key) *entry[V] {
	if el := t.entries[k]; el != nil {
		return el.Value.(*entry[V])
	}
	return nil
}

// put returns the entry of a key as the newest one, made if need be.
func (t *table[V]) put(k Key) *entry[V] {
	if el := t.entries[k]; el != nil {
		t.order.MoveToFront(el)
		return el.Value.(*entry[V])
	}
	e := &entry[V]{key: k}
	t.entries[k] = t.order.PushFront(e)
	return e
}

func (t *table[V]) drop(k Key) {
	if el := t.entries[k]; el != nil {
		t.order.Remove(el)
		delete(t.entries, k)
	}
}

// trim drops what is too much, and up to two of the oldest entries that are over, and calls gone for each. Each new entry
// pays for two old ones, so what is over does not pile up.
func (t *table[V]) trim(over func(*V) bool, gone func(*entry[V])) {
	for n := 0; ; n++ {
		el := t.order.Back()
		if el == nil {
			return
		}
		e := el.Value.(*entry[V])
		if len(t.entries) <= t.limit && (n >= 2 || !over(&e.value)) {
			return
		}
		t.drop(e.key)
		gone(e)
	}
}

func sortBy[T any](list []T, at func(T) time.Time) {
	slices.SortStableFunc(list, func(a, b T) int { return at(a).Compare(at(b)) })
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

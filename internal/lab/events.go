package lab

import "time"

// event is something that happens at a time: a call comes (or comes back), an attempt ends (of), or neither: a look.
type event struct {
	at time.Duration
	n  int // order of events of one instant
	p  *pending
	of *foreseen
}

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.n < other.n
}

// events is a heap: no event is before the one at half its index. It is container/heap without a box around each event.
type events []event

func (e *events) push(x event) {
	list := append(*e, x)
	*e = list
	i := len(list) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !x.before(&list[up]) {
			break
		}
		list[i] = list[up]
		i = up
	}
	list[i] = x
}

// pop takes the first event. There must be one.
func (e *events) pop() event {
	list := *e
	first, x := list[0], list[len(list)-1]
	list[len(list)-1] = event{}
	list = list[:len(list)-1]
	*e = list
	i := 0
	for {
		down := 2*i + 1
		if down >= len(list) {
			break
		}
		if down+1 < len(list) && list[down+1].before(&list[down]) {
			down++
		}
		if !list[down].before(&x) {
			break
		}
		list[i] = list[down]
		i = down
	}
	if len(list) > 0 {
		list[i] = x
	}
	return first
}

package journal

import (
	"errors"
	"io"
)

// Pos is a place in the journal: everything before Offset of that segment.
type Pos struct {
	Segment string
	Offset  int64
}

// Reader reads this process's own records, in order, as they are written. Next and Pos are for one goroutine.
type Reader struct {
	j    *Journal
	seg  *segment // seg and off change under the journal's lock, because Lag reads them
	off  int64
	buf  []byte
	recs [][]byte
}

// Reader returns a reader at the start of what is not released.
func (j *Journal) Reader() *Reader {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.segs[0]
	return &Reader{j: j, seg: s, off: max(s.moved, int64(len(magic)))}
}

const readChunk = 256 << 10

// Next returns up to limit records that were written since the last call, all of one segment, and none when there are
// none yet. They are valid until the next call. Unreadable bytes are stepped over.
func (r *Reader) Next(limit int) ([][]byte, error) {
	r.recs = r.recs[:0]
	left := r.turn()
	want := min(left, readChunk)
	for left > 0 {
		if int64(cap(r.buf)) < want {
			r.buf = make([]byte, want)
		}
		b := r.buf[:want]
		n, err := r.seg.file.ReadAt(b, r.off)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		used, need := r.split(b[:n], limit, int(left))
		r.j.mu.Lock()
		r.off += int64(used)
		r.j.mu.Unlock()
		if len(r.recs) > 0 || need == 0 {
			break
		}
		left -= int64(used)
		want = need
	}
	return r.recs, nil
}

// turn goes on to the next segment when this one is read to its end, and returns how many bytes there are to read.
func (r *Reader) turn() int64 {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	if r.off >= r.seg.size && r.seg.seal {
		for i, s := range r.j.segs {
			if s == r.seg && i+1 < len(r.j.segs) {
				r.seg, r.off = r.j.segs[i+1], int64(len(magic))
				break
			}
		}
	}
	return r.seg.size - r.off
}

// split cuts b into records. used is how far it came; need is not 0 when the first record takes more bytes than b has.
// left is how many bytes are written from the start of b on: a frame that claims more is damage, not a frame.
func (r *Reader) split(b []byte, limit, left int) (used int, need int64) {
	off := 0
	for off < len(b) && len(r.recs) < limit {
		payload, n := frame(b[off:])
		if n == 0 || off+n > left {
			off++
			continue
		}
		if off+n > len(b) {
			return off, int64(n)
		}
		off += n
		r.recs = append(r.recs, payload)
	}
	return off, 0
}

// Pos is the place behind the last record that Next returned.
func (r *Reader) Pos() Pos { return Pos{Segment: r.seg.name, Offset: r.off} }

// Lag is how many bytes are written and not read.
func (r *Reader) Lag() int64 {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	var sum int64
	found := false
	for _, s := range r.j.segs {
		switch {
		case s == r.seg:
			found = true
			sum += s.size - r.off
		case found:
			sum += s.size - int64(len(magic))
		}
	}
	return sum
}

// Release says that everything before pos is safe elsewhere. Segments that lie wholly before it are deleted; their
// names are returned.
func (j *Journal) Release(pos Pos) (deleted []string, err error) {
	j.mu.Lock()
	var gone []*segment
	for i, s := range j.segs {
		if s.name != pos.Segment {
			continue
		}
		s.moved = max(s.moved, pos.Offset)
		gone = append(gone, j.segs[:i]...)
		j.segs = append([]*segment(nil), j.segs[i:]...)
		break
	}
	for _, s := range gone {
		j.bytes -= s.size
	}
	j.mu.Unlock()
	for _, s := range gone {
		deleted = append(deleted, s.name)
		err = errors.Join(err, s.remove())
	}
	return deleted, err
}

// Left is one segment that a dead process left behind.
type Left struct {
	Name  string
	Owner string // segments of one owner are returned in the order in which they were written
	data  func() ([]byte, error)
}

// Read returns all bytes of the segment, for Scan.
func (l Left) Read() ([]byte, error) { return l.data() }

// Left returns the segments of dead processes, those of one owner together and in order.
func (j *Journal) Left() []Left {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]Left, 0, len(j.old))
	for _, s := range j.old {
		out = append(out, Left{Name: s.name, Owner: owner(s.name), data: func() ([]byte, error) {
			b := make([]byte, s.size)
			n, err := s.file.ReadAt(b, 0)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return b[:n], err
		}})
	}
	return out
}

// Forget deletes a segment that Left returned, after all that it held is safe elsewhere.
func (j *Journal) Forget(name string) error {
	j.mu.Lock()
	var gone *segment
	for i, s := range j.old {
		if s.name == name {
			gone = s
			j.old = append(append([]*segment(nil), j.old[:i]...), j.old[i+1:]...)
			j.bytes -= s.size
			break
		}
	}
	j.mu.Unlock()
	if gone == nil {
		return nil
	}
	return gone.remove()
}

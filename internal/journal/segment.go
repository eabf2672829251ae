package journal

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// A frame is: mark (2 bytes), length of the payload (uint32), CRC-32C of length and payload (uint32), payload; all
// little-endian. The mark lets a reader find the next frame behind damaged bytes.
const (
	frameHead = 10
	markA     = 0xA7
	markB     = 0x5E
)

var magic = []byte("spwjrnl1")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendFrame(b, payload []byte) []byte {
	at := len(b)
	b = append(b, markA, markB)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = append(b, 0, 0, 0, 0)
	b = append(b, payload...)
	binary.LittleEndian.PutUint32(b[at+6:], frameSum(b[at+2:at+6], b[at+frameHead:]))
	return b
}

func frameSum(length, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(length, castagnoli), castagnoli, payload)
}

// frame reads the frame at the start of b. need is how many bytes it takes; 0 means that no frame begins here, and a
// need beyond len(b) that b is too short to tell.
func frame(b []byte) (payload []byte, need int) {
	if len(b) < frameHead {
		return nil, frameHead
	}
	n := int(binary.LittleEndian.Uint32(b[2:]))
	if b[0] != markA || b[1] != markB || n > MaxRecord {
		return nil, 0
	}
	if need = frameHead + n; need > len(b) {
		return nil, need
	}
	payload = b[frameHead:need]
	if frameSum(b[2:6], payload) != binary.LittleEndian.Uint32(b[6:]) {
		return nil, 0
	}
	return payload, need
}

// Scan calls fn for every whole record of a segment's bytes, with the offset of its end. Damaged bytes are stepped over
// to the next frame that proves itself; skipped counts them. Neither a torn tail nor garbage ends in a panic, and
// nothing that stands before the damage is lost.
func Scan(data []byte, fn func(end int64, payload []byte) error) (skipped int64, err error) {
	off := 0
	if bytes.HasPrefix(data, magic) {
		off = len(magic)
	}
	for off < len(data) {
		payload, need := frame(data[off:])
		if need == 0 || off+need > len(data) {
			next := bytes.Index(data[off+1:], []byte{markA, markB})
			if next < 0 {
				return skipped + int64(len(data)-off), nil
			}
			skipped += int64(next + 1)
			off += next + 1
			continue
		}
		off += need
		if err := fn(int64(off), payload); err != nil {
			return skipped, err
		}
	}
	return skipped, nil
}

// segment is one file. size and moved are guarded by the journal's lock.
type segment struct {
	name  string
	path  string
	file  *os.File
	size  int64 // bytes that were written completely
	moved int64 // everything before was released
	seal  bool  // nothing is appended any more
}

func (s *segment) released() bool { return s.moved >= s.size }

func (s *segment) remove() error {
	err := os.Remove(s.path)
	return errors.Join(err, s.file.Close()) // the lock is held until the name is gone
}

// owner is the part of a segment's name that tells which process made it.
func owner(name string) string {
	if parts := strings.Split(name, "-"); len(parts) == 3 {
		return parts[1]
	}
	return name
}

func newOwner() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// create makes the next segment of this process, locked and with its header.
func (j *Journal) create(now time.Time) (*segment, error) {
	j.serial++
	name := fmt.Sprintf("%016x-%s-%08d.journal", now.UnixMicro(), j.owner, j.serial)
	s := &segment{name: name, path: filepath.Join(j.opt.Dir, name)}
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	s.file = f
	ok, err := lock(f)
	if err == nil && !ok {
		err = errors.New("locked by somebody else")
	}
	if err == nil {
		_, err = f.WriteAt(magic, 0)
	}
	if err == nil && j.opt.Sync {
		err = syncDir(j.opt.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, s.remove())
	}
	s.size = int64(len(magic))
	s.moved = s.size
	return s, nil
}

// write appends to the current segment, after beginning a new one when it is full. Only the one who set j.writing calls
// it. A write that fails half-way is undone, so that the file never holds a torn record in its middle; if even that
// fails the reader steps over it.
func (j *Journal) write(b []byte, now time.Time) (n int, err error) {
	j.mu.Lock()
	s := j.segs[len(j.segs)-1]
	j.mu.Unlock()
	if s.size > int64(len(magic)) && s.size+int64(len(b)) > j.opt.SegmentBytes {
		next, carried, err := j.rotate(now)
		if err != nil { // keep what works: the old segment grows
			j.opt.Log.Error("journal: no new segment", "err", err)
		} else {
			s, n = next, carried
		}
	}
	if len(b) == 0 {
		return n, nil
	}
	if _, err = s.file.WriteAt(b, s.size); err == nil && j.opt.Sync {
		err = s.file.Sync()
	}
	if err != nil {
		s.file.Truncate(s.size)
		return n, err
	}
	j.mu.Lock()
	s.size += int64(len(b))
	j.mu.Unlock()
	return n + len(b), nil
}

// rotate begins a new segment with the carried records in it.
func (j *Journal) rotate(now time.Time) (*segment, int, error) {
	s, err := j.create(now)
	if err != nil {
		return nil, 0, err
	}
	var head []byte
	j.mu.Lock()
	carry := j.carry
	j.mu.Unlock()
	if carry != nil {
		carry(func(payload []byte) {
			if len(payload) <= MaxRecord {
				head = appendFrame(head, payload)
			}
		})
	}
	if len(head) > 0 {
		if _, err := s.file.WriteAt(head, s.size); err != nil {
			return nil, 0, errors.Join(err, s.remove())
		}
		s.size += int64(len(head))
	}
	j.mu.Lock()
	j.segs[len(j.segs)-1].seal = true
	j.segs = append(j.segs, s)
	j.mu.Unlock()
	return s, int(s.size), nil
}

// adopt opens and locks the segments whose process is dead, oldest first per process.
func adopt(dir string) ([]*segment, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	if err != nil {
		return nil, err
	}
	var out []*segment
	for _, p := range paths {
		f, err := os.OpenFile(p, os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue // its owner has just finished
		}
		if err != nil {
			closeAll(out)
			return nil, err
		}
		ok, err := lock(f)
		if err != nil || !ok {
			f.Close()
			if err != nil {
				closeAll(out)
				return nil, err
			}
			continue
		}
		size, err := f.Seek(0, io.SeekEnd)
		if _, gone := os.Stat(p); err != nil || gone != nil {
			f.Close() // removed by its owner between our open and our lock
			continue
		}
		out = append(out, &segment{name: filepath.Base(p), path: p, file: f, size: size, seal: true})
	}
	sort.Slice(out, func(a, b int) bool {
		if oa, ob := owner(out[a].name), owner(out[b].name); oa != ob {
			return oa < ob
		}
		return out[a].name < out[b].name
	})
	return out, nil
}

func closeAll(segs []*segment) {
	for _, s := range segs {
		s.file.Close()
	}
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

package wire

// The numbers of FNV-1a with 32 and 64 bits. It is written out here because package hash/fnv copies every string and keeps
// its sum on the heap.
const (
	offset32 = 2166136261
	prime32  = 16777619
	offset64 = 14695981039346656037
	prime64  = 1099511628211
)

// sum32 takes s into a hash.
func sum32[T string | []byte](h uint32, s T) uint32 {
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * prime32
	}
	return h
}

// sum64 takes s into a hash.
func sum64[T string | []byte](h uint64, s T) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * prime64
	}
	return h
}

const digits = "0123456789abcdef"

// inHex appends the sixteen digits of a number.
func inHex(b []byte, v uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, digits[v>>shift&15])
	}
	return b
}

// Fingerprint is a prefix and sixteen digits that tell bodies apart.
func Fingerprint(prefix string, body []byte) string {
	var room [32]byte
	return string(inHex(append(room[:0], prefix...), sum64(offset64, body)))
}

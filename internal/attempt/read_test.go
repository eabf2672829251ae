package attempt

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// An answer of which there is more than is read is not taken for whole: sound that stops in the middle would look so.
func TestReadUpTo(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		r    io.Reader
		want string
		err  error
	}{
		"whole":     {strings.NewReader("abc"), "abc", nil},
		"last read": {iotest.DataErrReader(strings.NewReader("abcdefgh")), "abcdefgh", nil},
		"more":      {strings.NewReader("abcdefghi"), "abcdefgh", errTooMuch},
		"broken":    {io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(broken)), "ab", broken},
	} {
		buf := make([]byte, 0, 2)
		if err := readUpTo(c.r, &buf, 8); err != c.err || string(buf) != c.want {
			t.Errorf("%s: %q, %v", name, buf, err)
		}
	}
}

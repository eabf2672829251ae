package golden

import "testing"

func TestDiffer(t *testing.T) {
	for _, c := range []struct {
		got, want string
		line      int
		a, b      string
	}{
		{"x\ny\n", "x\ny\n", 0, "", ""},
		{"x\ny", "x\nz", 2, "y", "z"},
		{"x", "x\ny", 2, "<end>", "y"},
		{"x\ny", "x", 2, "y", "<end>"},
	} {
		if line, a, b, differ := Differ(c.got, c.want); line != c.line || a != c.a || b != c.b || differ != (c.line > 0) {
			t.Errorf("%q and %q: line %d, %q, %q", c.got, c.want, line, a, b)
		}
	}
}

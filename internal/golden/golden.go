// Package golden holds tests to what stands in files: scripts in testdata that are played by one driver or several, and
// beside each the trace that all of them must leave. It is for tests alone and knows nothing of what it plays.
package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Driver plays a script and returns its trace.
type Driver struct {
	Name string
	Play func(t *testing.T, text string) string
}

// Scripts plays every testdata/NAME.txt, of which there must be at least so many, by every driver, and compares each trace
// with testdata/NAME.golden. With -update the first driver writes that file.
func Scripts(t *testing.T, least int, drivers ...Driver) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < least {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".txt")
		t.Run(filepath.Base(name), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i, d := range drivers {
				got := d.Play(t, string(text))
				if i == 0 && *update {
					if err := os.WriteFile(name+".golden", []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(name + ".golden")
				if err != nil {
					t.Fatal(err)
				}
				if line, a, b, differ := Differ(got, string(want)); differ {
					t.Fatalf("%s, line %d:\n got %q\nwant %q", d.Name, line, a, b)
				}
			}
		})
	}
}

// Trace plays a script line by line and returns what it leaves: comments and blank lines as they are, every other line
// behind the virtual time that has passed, and whatever line, which gets its words, writes to out meanwhile.
func Trace(text string, out *strings.Builder, passed func() time.Duration, line func(words []string)) string {
	for one := range strings.Lines(text) {
		one = strings.TrimSpace(one)
		if one == "" || strings.HasPrefix(one, "#") {
			fmt.Fprintln(out, one)
			continue
		}
		fmt.Fprintf(out, "[+%v] %s\n", passed(), one)
		line(strings.Fields(one))
	}
	return out.String()
}

// Differ finds the first line, counted from 1, in which two texts differ; where one has ended it is "<end>".
func Differ(got, want string) (line int, a, b string, differ bool) {
	x, y := strings.Split(got, "\n"), strings.Split(want, "\n")
	at := func(s []string, i int) string {
		if i < len(s) {
			return s[i]
		}
		return "<end>"
	}
	for i := range max(len(x), len(y)) {
		if a, b = at(x, i), at(y, i); a != b {
			return i + 1, a, b, true
		}
	}
	return 0, "", "", false
}

package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hidden are the secrets of the bad files; none may come out.
var hidden = []string{"hunter2secret", "sk-live", "sk-proj-aaaa", "abcdefghijklmnopqrstuvwxyz", "AIzaSy", "s3cr3t-of-the-environment"}

// TestBadFiles runs the two-part files of testdata/bad: a configuration, a line of dashes, the problems expected.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.txt")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, ok := strings.Cut(string(data), "-----\n")
			if !ok {
				t.Fatal("no line of dashes")
			}
			_, err = Load(Source{Path: "spillway.yaml", Bytes: []byte(input), ReadFile: noFile, Env: env("SECRET", "s3cr3t-of-the-environment")})
			var problems *Problems
			if !errors.As(err, &problems) {
				t.Fatalf("want *Problems, got %v", err)
			}
			have := err.Error() + "\n"
			for _, s := range hidden {
				if strings.Contains(have, s) {
					t.Errorf("shows %q:\n%s", s, have)
				}
			}
			for _, p := range problems.List {
				if p.File == "" || p.Message == "" {
					t.Errorf("a problem without place or words: %+v", p)
				}
			}
			if *update {
				if err := os.WriteFile(file, []byte(input+"-----\n"+have), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if have != want {
				t.Errorf("have\n%swant\n%s", have, want)
			}
		})
	}
}

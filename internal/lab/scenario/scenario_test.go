package scenario

import (
	"strings"
	"testing"
)

func TestShippedFilesAreValid(t *testing.T) {
	cases, err := Failover()
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) != 16 {
		t.Errorf("%d cases", len(cases))
	}
	for _, name := range Names() {
		s, err := Load(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s.Name != name || s.About == "" || len(s.Holds) == 0 {
			t.Errorf("%s: name %q, about %q, %d holds", name, s.Name, s.About, len(s.Holds))
		}
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"name: x\nsources:\n  - name: a\n    latncy: 3ms\n", "f.yaml:4:"},
		{"name: x\nsources:\n  - name: a\n    latency: fast\n", "f.yaml:4:"},
		{"name: x\nload: {calls: 3}\nsources:\n  - name: a\n  - name: a\n", `f.yaml:5: sources[1].name: "a" is used twice`},
		{"name: x\nload: {calls: 3}\nsources:\n  - name: a\n    faults:\n      - kind: status\n      - kind: explode\n", `f.yaml:7: sources[0].faults[1].kind: unknown fault "explode"`},
		{"name: x\nload: {calls: 3}\nsources: [{name: a}]\nholds:\n  - {what: luck, min: 1}\n", "f.yaml:5: holds[0].what"},
		{"name: x\nload: {}\nsources: [{name: a}]\n", "f.yaml:2: load.calls"},
		{"name: x\nload: {calls: 1}\nsources:\n - name: a\n   account: b\n", "f.yaml:5: sources[0].account"},
		{"name: x\n bad\n", "f.yaml:"},
	} {
		_, err := Decode("f.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestSpread(t *testing.T) {
	var s Spread
	if err := s.UnmarshalText([]byte("10ms..30ms")); err != nil || s.At(0.5) != 20_000_000 {
		t.Error(s, err)
	}
	for _, bad := range []string{"", "3", "30ms..10ms", "-1s"} {
		if err := s.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

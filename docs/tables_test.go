package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"spillway/internal/gateway"
	"spillway/internal/lab/scenario"
)

// TestErrorTable: the table of errors has every code of the gateway with its status, and no other.
func TestErrorTable(t *testing.T) {
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| (\\d{3}) \\| `([A-Za-z_]+)` \\|").FindAllStringSubmatch(read(t, "guide/errors.md"), -1) {
		rows[m[2]] = m[1]
	}
	for code, status := range gateway.Codes() {
		if rows[string(code)] != strconv.Itoa(status) {
			t.Errorf("errors.md has %s with status %q, the code has %d", code, rows[string(code)], status)
		}
		delete(rows, string(code))
	}
	for code := range rows {
		t.Errorf("errors.md has %s, which the code does not know", code)
	}
}

// TestMetricsTable: the page of metrics has every metric of the code, and no other.
func TestMetricsTable(t *testing.T) {
	name := regexp.MustCompile("[\"`](spillway_[a-z_]+)[\"`]")
	have, want := map[string]bool{}, map[string]bool{}
	for _, m := range name.FindAllStringSubmatch(read(t, "guide/metrics.md"), -1) {
		have[m[1]] = true
	}
	for _, m := range name.FindAllStringSubmatch(read(t, "../internal/app/metrics.go")+read(t, "../internal/app/cache.go"), -1) {
		want[m[1]] = true
	}
	for m := range want {
		if !have[m] {
			t.Errorf("metrics.md does not have %s", m)
		}
	}
	for m := range have {
		if !want[m] {
			t.Errorf("metrics.md has %s, which the code does not have", m)
		}
	}
	if len(want) < 5 {
		t.Errorf("only %d metrics were found in the code", len(want))
	}
}

// TestStrategiesAndScenariosAreDescribed: what can be chosen is described.
func TestStrategiesAndScenariosAreDescribed(t *testing.T) {
	for page, names := range map[string][]string{
		"guide/strategies.md": strategyNames(), "guide/lab.md": scenario.Names(),
	} {
		text := read(t, page)
		for _, n := range names {
			if !strings.Contains(text, n) {
				t.Errorf("%s does not have %s", page, n)
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)\s]*)?\)`)

// TestLinksLead: every relative link leads to a file.
func TestLinksLead(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", page, m[1])
			}
		}
	}
}

// TestPagesAreReachable: every page is linked from the README, from docs/README.md or from another page.
func TestPagesAreReachable(t *testing.T) {
	linked := map[string]bool{"../README.md": true}
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			if !strings.Contains(m[1], "://") {
				to := filepath.Clean(filepath.Join(filepath.Dir(page), m[1]))
				linked[strings.TrimPrefix(to, "../docs/")] = true
			}
		}
	}
	for _, page := range pages(t) {
		if !linked[page] {
			t.Errorf("no page links to %s", page)
		}
	}
}

// TestArchitecturePageKnowsEveryPackage: docs/ARCHITECTURE.md names every package of internal/.
func TestArchitecturePageKnowsEveryPackage(t *testing.T) {
	text := read(t, "ARCHITECTURE.md")
	err := filepath.WalkDir("../internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || d.Name() == "testdata" || path == "../internal" {
			return err
		}
		sources, err := filepath.Glob(filepath.Join(path, "*.go"))
		if rel := strings.TrimPrefix(path, "../internal/"); len(sources) > 0 && !strings.Contains(text, "`"+rel+"`") {
			t.Errorf("ARCHITECTURE.md does not have the package `%s`", rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLaterIsLater: a setting that the reference calls unused is not used. Whoever builds it corrects the reference.
func TestLaterIsLater(t *testing.T) {
	for _, dir := range []string{"../internal", "../cmd"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.Contains(path, "/config/") || strings.Contains(path, "/catalog/") || strings.Contains(path, "/lab/") {
				return err
			}
			text := read(t, path)
			for _, tell := range tells {
				if strings.Contains(text, tell) {
					t.Errorf("%s uses %s: take its line out of `later` in docs/marks_test.go and run go generate ./docs", path, tell)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

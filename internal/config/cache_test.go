package config

import (
	"strings"
	"testing"
	"time"
)

func TestCacheSettings(t *testing.T) {
	open := func(doc string) (*Config, error) {
		return Load(Source{Path: "t.yaml", Bytes: []byte(doc), Env: func(string) (string, bool) { return "", false }})
	}
	c, err := open("cache: {enabled: true, max_bytes: 8MiB, max_entry: 2MiB, ttl: 5m, deduplicate: true}")
	if want := (Cache{Enabled: true, TTL: 5 * time.Minute, Deduplicate: true, MaxBytes: 8 << 20, MaxEntry: 2 << 20}); err != nil || c.Cache != want {
		t.Errorf("%+v, %v", c, err)
	}
	for _, w := range c.Warnings {
		if strings.Contains(w.String(), "cache") {
			t.Errorf("warning: %s", w)
		}
	}
	for doc, want := range map[string]string{
		"cache: {max_entry: 10B}":                     "cache.max_entry: must be at least 1KiB",
		"cache: {max_bytes: 1MiB}":                    "cache.max_bytes: must be at least four times cache.max_entry (1MiB)",
		"cache: {max_bytes: 1MiB, max_entry: 512KiB}": "four times",
		"cache: {enabled: true, ttl: 0s}":             "cache.ttl",
	} {
		if _, err := open(doc); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", doc, err, want)
		}
	}
}

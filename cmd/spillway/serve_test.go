package main

import (
	"bufio"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

var listens = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// address reads what serve prints until it names its address; the rest is read and dropped.
func address(t *testing.T, r io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if m := listens.FindString(lines.Text()); m != "" {
			go io.Copy(io.Discard, r) // ends with the pipe
			return m
		}
	}
	t.Fatal("serve ended without telling its address")
	return ""
}

// ask sends one request and returns its id.
func ask(t *testing.T, base string) string {
	t.Helper()
	res, err := http.Post(base+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"auto","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v %s %s", err, res.Status, body)
	}
	return res.Header.Get("X-Spillway-Request-Id")
}

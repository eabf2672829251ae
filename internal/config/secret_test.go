package config

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const leaky = `
database: postgres://user:s3cretvalue1@host/db
state: redis://:s3cretvalue2@host:6379
providers:
  p: {protocols: [openai], base_url: "http://127.0.0.1:1", headers: {x-auth: s3cretvalue3}}
connections:
  - {id: a, provider: p, key: s3cretvalue4, proxy: "http://u:s3cretvalue5@proxy:1"}
  - {id: b, provider: p, key: "${K}"}
`

// P102, P106: keys in exception texts and info logs.
func TestP102P106SecretsAreNeverPrinted(t *testing.T) {
	c := load(t, leaky, "K", "s3cretvalue6")
	marshalled, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var prints strings.Builder
	prints.WriteString(string(marshalled))
	for _, v := range []any{c, *c, c.Providers["p"], *c.Providers["p"], c.Connections[0], *c.Connections[0], *c.Connections[1], c.Settings("a"), c.Warnings} {
		prints.WriteString(fmt.Sprintf("%v %+v %#v %s", v, v, v, v))
	}
	if i := strings.Index(prints.String(), "s3cretvalue"); i >= 0 {
		t.Errorf("printed: %s", prints.String()[max(0, i-80):i+12])
	}
	if c.Connections[0].Credential.Value().Reveal() != "s3cretvalue4" || c.Connections[1].Credential.Value().Reveal() != "s3cretvalue6" {
		t.Error("the keys are not what was written")
	}
}

// P102: whatever else is wrong with a file, its secrets stay out of the report.
func TestP102SecretsAreNotInErrors(t *testing.T) {
	for _, broken := range []string{
		strings.Replace(leaky, "key: s3cretvalue4", "key: [s3cretvalue4]", 1),
		strings.Replace(leaky, "key: s3cretvalue4", "kye: s3cretvalue4", 1),
		strings.Replace(leaky, "key: s3cretvalue4", "s3cretvalue4: key, s3cretvalue4: key", 1),
		strings.Replace(leaky, "id: b", "id: \"${K}/x\"", 1),
		strings.Replace(leaky, "provider: p, key: \"${K}\"", "provider: \"${K}\"", 1),
		strings.Replace(leaky, "state: redis", "state: s3cretvalue6", 1),
		leaky + "combos: [{name: \"${K}\", targets: [\"${K}/m\", \"${K}\", {combo: \"${K}\"}]}]\naliases: {\"x\": \"${K}/y\"}\nlisten: \"${K}\"\n",
		leaky + "rules: [{id: x, text: \"(${K}\"}]\nkeys: [{name: n, hash: \"${K}\", scopes: [\"${K}\"]}]\nallowed_origins: [\"${K}\"]\n",
		leaky + "  }\n",
	} {
		_, err := Load(Source{Bytes: []byte(broken), Env: env("K", "s3cretvalue6")})
		if err == nil {
			t.Errorf("no problem in\n%s", broken)
			continue
		}
		known := err.Error()
		// A key that stands where a name belongs is shown only if nothing said that it is one.
		if strings.Contains(broken, "kye: ") || strings.Contains(broken, "s3cretvalue4: key") {
			known = strings.ReplaceAll(known, "[s3cretvalue4]", "")
			known = strings.ReplaceAll(known, ".s3cretvalue4", "")
		}
		if strings.Contains(known, "s3cretvalue") {
			t.Errorf("shown:\n%s", known)
		}
	}
}

func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	write := func(s string) {
		if err := os.WriteFile(filepath.Join(dir, "key"), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first-key\n")
	file := filepath.Join(dir, "spillway.yaml")
	if err := os.WriteFile(file, []byte("providers: {openai: {}}\nconnections: [{id: a, provider: openai, key_file: key}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(Source{Path: file, Env: env()})
	if err != nil {
		t.Fatal(err)
	}
	cred := c.Connections[0].Credential
	if cred.Value() != "first-key" {
		t.Errorf("%q", cred.Value().Reveal())
	}
	if changed, err := cred.Reload(t.Context(), "first-key"); changed || err != nil {
		t.Errorf("unchanged file: %v %v", changed, err)
	}
	write("second-key")
	if changed, err := cred.Reload(t.Context(), "first-key"); !changed || err != nil || cred.Value() != "second-key" {
		t.Errorf("changed file: %v %v %q", changed, err, cred.Value().Reveal())
	}
	for _, bad := range []string{"", " \n", "a\nb", strings.Repeat("x", maxKeyBytes+1)} {
		write(bad)
		if changed, err := cred.Reload(t.Context(), "second-key"); changed || err == nil || cred.Value() != "second-key" {
			t.Errorf("%.10q: %v %v", bad, changed, err)
		}
	}
}

const commandFile = "providers: {openai: {}}\nconnections: [{id: a, provider: openai, key_command: 'printf %s \"$((40+2))-key\"'}]\n"

func TestKeyCommand(t *testing.T) {
	c, err := Load(Source{Bytes: []byte(commandFile), Env: env()})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Connections[0].Credential.Value(); got != "42-key" {
		t.Errorf("%q", got.Reveal())
	}
}

// A command that fails keeps nothing from starting, says why without its output, and is run again when asked.
func TestKeyCommandFails(t *testing.T) {
	var result error = errors.New("it ended with exit code 3")
	c, err := Load(Source{Bytes: []byte(commandFile), Env: env(), RunCommand: func(context.Context, string) ([]byte, error) {
		return []byte("later-key"), result
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) == 0 || !strings.Contains(c.Warnings[0].String(), "connections[0].key_command: it ended with exit code 3") {
		t.Errorf("%v", c.Warnings)
	}
	cred := c.Connections[0].Credential
	if cred.Value().Set() {
		t.Error("a key out of nowhere")
	}
	result = nil
	if changed, err := cred.Reload(t.Context(), ""); !changed || err != nil || cred.Value() != "later-key" {
		t.Errorf("%v %v", changed, err)
	}
}

func TestKeyCommandIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Source{RunCommand: func(ctx context.Context, _ string) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		start := time.Now()
		_, err := s.keySource(&Connection{KeyCommand: "sleep 1000"})(t.Context())
		if err == nil || time.Since(start) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestShellEndsWithItsChildren(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := runShell(ctx, "sleep 60 & sleep 60"); err == nil || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	_, err := runShell(t.Context(), "echo s3cret-on-stdout; echo s3cret-on-stderr >&2; exit 3")
	if err == nil || err.Error() != "it ended with exit code 3" {
		t.Errorf("%v", err)
	}
}

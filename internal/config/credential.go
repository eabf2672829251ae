package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"spillway/internal/gateway"
)

// keyCommandLimit bounds a key_command, the first time and on every reload.
const keyCommandLimit = 10 * time.Second

// maxKeyBytes bounds a key: no service uses a longer one, and a wrong path may name anything.
const maxKeyBytes = 64 << 10

// keySource returns how a connection's key is read again; nil for a key that stands in the file or the environment.
func (s *Source) keySource(c *Connection) func(context.Context) (gateway.Secret, error) {
	switch {
	case c.KeyFile != "":
		path := s.resolvePath(c.KeyFile)
		return func(context.Context) (gateway.Secret, error) {
			data, err := s.readFile(path)
			if err != nil {
				return "", fmt.Errorf("key_file: %w", errors.Unwrap(err))
			}
			return cleanKey(data, "key_file")
		}
	case c.KeyCommand != "":
		return func(ctx context.Context) (gateway.Secret, error) {
			ctx, cancel := context.WithTimeout(ctx, keyCommandLimit)
			defer cancel()
			out, err := s.runCommand(ctx, c.KeyCommand)
			if err != nil {
				return "", fmt.Errorf("key_command: %w", err)
			}
			return cleanKey(out, "key_command")
		}
	}
	return nil
}

// cleanKey trims the newline that editors and commands add, and refuses what cannot be sent in a header.
func cleanKey(data []byte, what string) (gateway.Secret, error) {
	if len(data) > maxKeyBytes {
		return "", fmt.Errorf("%s: more than %d KiB; a key is shorter", what, maxKeyBytes>>10)
	}
	key := strings.TrimSpace(string(data))
	if key == "" {
		return "", errors.New(what + ": it is empty")
	}
	if !headerSafe(key) {
		return "", errors.New(what + ": it holds line breaks or control characters; only the key may stand there")
	}
	return gateway.Secret(key), nil
}

func headerSafe(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }) < 0
}

// resolvePath makes a path of the file absolute: ~ is the home directory, others are relative to the file.
func (s *Source) resolvePath(path string) string {
	path = expandHome(path, s.Env)
	if !filepath.IsAbs(path) && s.file != "" {
		path = filepath.Join(filepath.Dir(s.file), path)
	}
	return path
}

func expandHome(path string, env func(string) (string, bool)) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		if home, ok := env("HOME"); ok && home != "" {
			return filepath.Join(home, strings.TrimPrefix(path[1:], "/"))
		}
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, strings.TrimPrefix(path[1:], "/"))
		}
	}
	return path
}

// runShell runs a command by sh -c in a process group of its own, so that what it started ends with it.
func runShell(ctx context.Context, command string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	ownGroup(cmd)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout = &out
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("it did not end within %s", keyCommandLimit)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) { // its output may hold a secret: only the code is told
		return nil, fmt.Errorf("it ended with exit code %d", exit.ExitCode())
	}
	return out.Bytes(), err
}

// loadKeys makes the credential of every connection. Files must be readable: a wrong path is a mistake that shows at
// once. A command that fails is a warning: its connection starts without a key and asks again when it is refused.
func (l *loader) loadKeys() {
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan struct{}, 8)
	for i, c := range l.cfg.Connections {
		path := fmt.Sprintf("connections[%d]", i)
		source := l.src.keySource(c)
		if source == nil {
			key := gateway.Secret(strings.TrimSpace(c.Key.Reveal()))
			if !headerSafe(key.Reveal()) {
				l.at(path+".key", "it holds line breaks or control characters; only the key may stand there")
			}
			c.Credential = gateway.NewCredential(key, nil)
			continue
		}
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			key, err := source(l.ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil && c.KeyFile != "" {
				l.at(path+".key_file", "%s", strings.TrimPrefix(err.Error(), "key_file: "))
			} else if err != nil {
				l.warn(path+".key_command", "%s; it is run again when a request is refused", strings.TrimPrefix(err.Error(), "key_command: "))
			}
			l.secrets = append(l.secrets, key.Reveal())
			c.Credential = gateway.NewCredential(key, source)
		})
	}
	wg.Wait()
}

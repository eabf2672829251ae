package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"spillway/internal/auth"
	"spillway/internal/gateway"
)

func newKey() (gateway.Secret, string) { return auth.NewKey() }

func hashKey(plain string) string { return auth.Hash(gateway.Secret(plain)) }

// readLine reads a secret from standard input, so that it never stands in a command line that others can see.
func readLine() (string, error) {
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if line = strings.TrimSpace(line); line == "" {
		return "", fmt.Errorf("expected the key on standard input: %w", err)
	}
	return line, nil
}

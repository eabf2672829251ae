//go:build !unix

package config

import "os/exec"

// ownGroup does nothing where there are no process groups: the command alone is ended.
func ownGroup(*exec.Cmd) {}

//go:build agents

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// inside is the variable that tells a process of this program that it runs in the box.
const inside = "AGENTS_INSIDE"

// boxed is the command run in a network of its own, which has loopback and nothing else: whatever it starts cannot reach
// another host, by whichever way it tries. It needs root, or a kernel that lets users have namespaces.
func boxed(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	}
	return cmd
}

// loopback switches it on in the box, where it is off at first.
func loopback() error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	req := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte // the kernel's request is 40 bytes long
	}{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(req.name[:], "lo")
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&req))); errno != 0 {
		return fmt.Errorf("loopback cannot be switched on: %w", errno)
	}
	return nil
}

// strays counts what was sent in the box, by anybody, to an address that is not on loopback: the kernel's count of
// packets and connections that had no route. A name that is looked up counts too, since that asks a server.
func strays() (int, error) {
	v4, err := counter("/proc/net/snmp", "Ip:", "OutNoRoutes")
	if err != nil {
		return 0, err
	}
	v6, err := counter("/proc/net/snmp6", "Ip6OutNoRoutes", "")
	if errors.Is(err, os.ErrNotExist) {
		return v4, nil // a kernel without IPv6
	}
	return v4 + v6, err
}

// counter reads a figure of the kernel's: from a line of names and a line of values, both of which start with a prefix,
// or, with no column, from the line that holds the name and the value.
func counter(file, prefix, column string) (int, error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	at := -1
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != prefix {
			continue
		}
		if column == "" {
			return strconv.Atoi(fields[1])
		}
		if at > 0 && at < len(fields) {
			return strconv.Atoi(fields[at])
		}
		for i, name := range fields {
			if name == column {
				at = i
			}
		}
	}
	return 0, fmt.Errorf("%s has no %s %s", file, prefix, column)
}

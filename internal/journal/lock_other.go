//go:build !unix

package journal

import "os"

// lock has no counterpart here: one process per data directory is the operator's duty on this system.
func lock(*os.File) (bool, error) { return true, nil }

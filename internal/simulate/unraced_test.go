//go:build !race

package simulate

// raced says that the race detector runs.
const raced = false

//go:build race

package simulate

// raced says that the race detector runs, under which a simulation takes ten times as long.
const raced = true

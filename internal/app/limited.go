package app

import "spillway/internal/resilience"

// outOrLimited counts the lines of a status that tell of something that holds requests back. Lines that only say what is
// under way, or what is known about rates, do not.
func outOrLimited(lines []resilience.Status) (n int) {
	for _, s := range lines {
		switch s.State {
		case "in_flight", "active", "learned":
		default:
			n++
		}
	}
	return n
}

package plan

import (
	"spillway/internal/catalog"
	"spillway/internal/resilience/queue"
)

// lineOf are the bounds of a pool's line, put together from the settings of its connections: a request waits for any of
// them, so the longest patience holds, and every connection brings room for its own number of requests. MaxQueueDepth is
// of the whole pool.
func lineOf(candidates []*Candidate, s *catalog.Snapshot) queue.Config {
	if len(candidates) == 0 {
		return queue.Default()
	}
	var line queue.Config
	patient, endless := false, false
	seen := map[int]bool{}
	for _, c := range candidates {
		if seen[c.Connection] {
			continue
		}
		seen[c.Connection] = true
		own := queue.Default()
		if set := s.Settings(c.Candidate.Connection.ID); set != nil {
			own = set.Pacing.Queue
		}
		patient = patient || own.MaxWait == 0
		endless = endless || own.MaxQueueDepth == 0
		line.MaxWait = max(line.MaxWait, own.MaxWait)
		line.MaxQueueDepth += own.MaxQueueDepth
	}
	if patient {
		line.MaxWait = 0
	}
	if endless {
		line.MaxQueueDepth = 0
	}
	return line
}

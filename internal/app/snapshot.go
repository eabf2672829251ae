package app

import (
	"spillway/internal/catalog"
	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/httpapi"
	"spillway/internal/plan"
)

// compile makes a snapshot of a configuration. Everything that can fail happens here, before anything is swapped.
func (a *App) compile(cfg *config.Config) (*httpapi.Snapshot, error) {
	snap, err := catalog.Compile(cfg)
	if err != nil {
		return nil, err
	}
	snap = a.lists.Apply(snap)
	return a.assemble(snap), nil
}

func (a *App) assemble(snap *catalog.Snapshot) *httpapi.Snapshot {
	set := snap.Config().Global()
	return &httpapi.Snapshot{
		Board: plan.NewBoard(snap, a.rooms), Rules: snap.Config().RuleSet(),
		Timeouts: gateway.Timeouts(set.Timeouts), Queue: set.Pacing.Queue, Streams: set.Streams,
		Emergency: snap.Config().EmergencyFallback,
	}
}

// install puts a snapshot in force. Requests in flight finish on the one that they began with.
func (a *App) install(s *httpapi.Snapshot) {
	a.rooms.retain(s.Board.Snapshot)
	a.keepAnswers(s.Board.Snapshot.Config().Cache)
	a.live.Store(s)
	if a.options.Level != nil {
		a.options.Level(s.Board.Snapshot.Config().Log.Level)
	}
	a.rooms.queues.Wake()
}

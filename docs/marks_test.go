package docs

import (
	"strings"

	"spillway/internal/route/strategy"
)

// later are settings that are read and checked, but that nothing uses in this version. A path ends in * when it means
// everything below. Whoever builds one takes its line out; TestLaterIsLater looks for names that give it away.
var later = map[string]string{
	"responses.store":                   "",
	"log.bodies":                        "",
	"combos[].options.continuation":     "a broken stream ends in an error",
	"combos[].options.stream_guarantee": "",
	"resilience.streams.continuation":   "",
	"resilience.breaker.backend_down":   "run-time state is in memory",
}

// tells are selectors that appear in the code as soon as somebody uses a setting of later.
var tells = []string{"Responses.Store", ".StreamGuarantee",
	".Options.Continuation",
}

// atStart are settings that a reload does not change: they are taken when the process starts.
var atStart = []string{"listen", "data", "database", "state", "limits.buffered_bytes", "log.decisions", "log.retention", "drain_timeout",
	"journal_sync", "resilience.health.*", "resilience.outage.*"}

// globalOnly are settings whose value under a provider or connection is not looked at.
var globalOnly = []string{"timeouts.request", "resilience.streams.*", "resilience.health.*",
	"resilience.outage.*", "resilience.affinity.*"}

// notes say of a field what its comment in the code cannot know.
var notes = map[string]string{
	"database":                "This version: `sqlite` only.",
	"state":                   "This version: `memory` only.",
	"combos[].strategy":       strategies(),
	"providers.NAME.strategy": strategies(),
	"keys[].scopes":           "`lease:exclusive` is known, but nothing asks for it yet.",
}

func strategyNames() []string { return strategy.Names() }

func strategies() string { return "One of `" + strings.Join(strategyNames(), " ") + "`." }

// own are sentences for fields that have no comment in the code.
var own = map[string]string{
	"rules[].header.name":    "Name of the response header, in any case.",
	"rules[].header.pattern": "Pattern that its value must match; empty asks only that the header is there.",
}

// required are fields without a default.
var required = map[string]string{
	"providers.NAME.protocols": "the preset's", "providers.NAME.base_url": "the preset's", "connections[].id": "required",
	"connections[].provider": "required", "connections[].key": "-", "combos[].name": "required", "combos[].targets": "required",
	"keys[].name": "required", "keys[].hash": "required", "combos[].options.continuation": "`prefill`",
	"combos[].options.stream_guarantee": "`none`", "combos[].options.content_refused": "`stop`", "combos[].options.early_commit": "`auto`",
	"combos[].options.failover.mode": "`exhaust_all`", "rules[].enabled": "`true`", "rules[].count": "`true`",
}

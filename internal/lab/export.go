package lab

import "spillway/internal/lab/scenario"

// ScenarioConfig is the sources of a scenario, for serving them without a load.
func ScenarioConfig(s *scenario.Scenario) Config { return labConfig(s) }

package config

import (
	"time"

	"spillway/internal/gateway"
)

// Rule is one line of `rules:`. With from and to it restates a lying status; otherwise it classifies an upstream error.
type Rule struct {
	// Name in logs; unique.
	ID string `yaml:"id"`
	// false switches the rule off. Default true.
	Enabled bool `yaml:"enabled"`
	// Lower is asked first. Default 0, then the order of the file.
	Priority int `yaml:"priority"`
	// Only for this provider. Default: every provider with use_global_rules.
	Provider gateway.ProviderID `yaml:"provider"`
	// Only for this connection.
	Connection gateway.ConnectionID `yaml:"connection"`
	// Statuses that match; empty = any.
	Status   []int         `yaml:"status"`
	Cooldown time.Duration `yaml:"cooldown"`
}

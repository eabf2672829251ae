package app

import (
	"github.com/prometheus/client_golang/prometheus"

	"spillway/internal/cache"
	"spillway/internal/config"
)

// keepAnswers puts the settings of the response cache in force. Switched off it holds nothing.
func (a *App) keepAnswers(c config.Cache) {
	if !c.Enabled {
		c.MaxBytes = 0
	}
	a.cache.Configure(int64(c.MaxBytes))
}

// cache registers what the response cache holds and counts.
func (m *metrics) cache(a *App) {
	read := func(f func(cache.Snapshot) float64) func() float64 {
		return func() float64 { return f(a.cache.Snapshot()) }
	}
	results := map[string]func(cache.Snapshot) float64{
		"hit":     func(s cache.Snapshot) float64 { return float64(s.Hits) },
		"miss":    func(s cache.Snapshot) float64 { return float64(s.Misses) },
		"shared":  func(s cache.Snapshot) float64 { return float64(s.Shared) },
		"stored":  func(s cache.Snapshot) float64 { return float64(s.Stored) },
		"unfit":   func(s cache.Snapshot) float64 { return float64(s.Unfit) },
		"evicted": func(s cache.Snapshot) float64 { return float64(s.Evicted) },
	}
	for result, f := range results {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "spillway_cache_total",
			Help: "What the response cache has done.", ConstLabels: prometheus.Labels{"result": result}}, read(f)))
	}
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "spillway_cache_bytes", Help: "Bytes of answers that are kept or being copied."},
			read(func(s cache.Snapshot) float64 { return float64(s.Bytes) })),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "spillway_cache_entries", Help: "Answers that are kept."},
			read(func(s cache.Snapshot) float64 { return float64(s.Entries) })))
}

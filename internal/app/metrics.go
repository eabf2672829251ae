package app

import (
	"net/http"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"spillway/internal/attempt"
	"spillway/internal/gateway"
	"spillway/internal/resilience/breaker"
)

// metrics is what /metrics shows. Labels are bounded by the configuration: no client text ever becomes a label.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	attempts *prometheus.CounterVec
	first    *prometheus.HistogramVec
	total    *prometheus.HistogramVec
	overhead prometheus.Histogram
	trips    *prometheus.CounterVec
	reloads  *prometheus.CounterVec
	waiting  prometheus.Gauge
	tokens   *prometheus.CounterVec

	emergencies *prometheus.CounterVec

	// Children by what they count: looking one up in a vector costs more than counting.
	mu   sync.RWMutex
	byTo map[served]*children
}

type served struct {
	provider gateway.ProviderID
	stream   bool
	protocol gateway.Protocol
}

type children struct {
	ok            prometheus.Counter
	first, total  prometheus.Observer
	input, output prometheus.Counter
}

var latencies = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300}

func newMetrics(a *App) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), byTo: map[served]*children{}}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: latencies}, labels)
		m.registry.MustRegister(v)
		return v
	}
	gauge := func(name, help string, f func() float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
	}
	m.requests = counter("spillway_requests_total", "Client requests by how they ended.", "protocol", "stream", "status", "code")
	m.attempts = counter("spillway_attempts_total", "Upstream calls by outcome.", "provider", "connection", "kind", "reason")
	m.first = histogram("spillway_first_content_seconds", "Time to first content as the client saw it.", "provider", "stream")
	m.total = histogram("spillway_request_seconds", "Time of a request to its end.", "provider", "stream")
	m.overhead = prometheus.NewHistogram(prometheus.HistogramOpts{Name: "spillway_overhead_seconds",
		Help:    "Time of a request that was not spent waiting for an upstream or for a slot.",
		Buckets: []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .05, .1, 1}})
	m.trips = counter("spillway_breaker_transitions_total", "State changes of breakers.", "provider", "connection", "to", "cause")
	m.reloads = counter("spillway_reloads_total", "Reloads of the configuration.", "result")
	m.tokens = counter("spillway_tokens_total", "Tokens of answers, as told by upstreams or estimated.", "provider", "direction")
	m.emergencies = counter("spillway_emergency_total", "Requests that went on over the emergency combo.", "answered")
	m.waiting = prometheus.NewGauge(prometheus.GaugeOpts{Name: "spillway_waiting", Help: "Requests that wait in a queue."})
	m.registry.MustRegister(m.overhead, m.waiting, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	gauge("spillway_in_flight", "Client requests being served.", func() float64 { return float64(a.api.Active()) })
	gauge("spillway_buffered_bytes", "Bytes of requests held in memory.", func() float64 { return float64(a.buffers.Used()) })
	gauge("spillway_out", "Breakers, accounts and models that are out or limited.", func() float64 { return float64(outOrLimited(a.Status())) })
	m.cache(a)
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

func (m *metrics) events() attempt.Events {
	return attempt.Events{
		Attempt: func(c gateway.Candidate, a *gateway.Attempt) {
			if a.Kind != gateway.Success { // successes are counted with their request
				m.attempts.WithLabelValues(string(c.Connection.Provider.ID), string(c.Connection.ID), a.Kind.String(), a.Reason.String()).Inc()
			}
		},
		Waiting: func(delta int) { m.waiting.Add(float64(delta)) },
		Emergency: func(answered bool) {
			m.emergencies.WithLabelValues(strconv.FormatBool(answered)).Inc()
		},
	}
}

// done counts a request that ended.
func (m *metrics) done(j *gateway.Journey) {
	m.overhead.Observe(float64(j.Overhead) / 1e6)
	if j.Code != "" || j.Served.Provider == "" {
		m.requests.WithLabelValues(j.Protocol.String(), strconv.FormatBool(j.Stream), strconv.Itoa(j.Status), bounded(j.Code)).Inc()
		return
	}
	if j.CopyOf != "" { // no provider has done anything for it
		m.requests.WithLabelValues(j.Protocol.String(), strconv.FormatBool(j.Stream), strconv.Itoa(j.Status), "").Inc()
		return
	}
	c := m.children(served{j.Served.Provider, j.Stream, j.Protocol})
	c.ok.Inc()
	c.first.Observe(j.Committed.Sub(j.At).Seconds())
	c.total.Observe(j.EndedAt.Sub(j.At).Seconds())
	c.input.Add(float64(j.Usage.Input))
	c.output.Add(float64(j.Usage.Output))
	m.attempts.WithLabelValues(string(j.Served.Provider), string(j.Connection), gateway.Success.String(), gateway.Answered.String()).Inc()
}

// bounded keeps codes that are ours or empty; an upstream's own code could be anything.
func bounded(code string) string {
	if _, ours := gateway.Codes()[gateway.Code(code)]; ours || code == "" {
		return code
	}
	return "upstream"
}

func (m *metrics) children(s served) *children {
	m.mu.RLock()
	c := m.byTo[s]
	m.mu.RUnlock()
	if c != nil {
		return c
	}
	stream := strconv.FormatBool(s.stream)
	p := string(s.provider)
	c = &children{
		ok:    m.requests.WithLabelValues(s.protocol.String(), stream, "200", ""),
		first: m.first.WithLabelValues(p, stream), total: m.total.WithLabelValues(p, stream),
		input: m.tokens.WithLabelValues(p, "input"), output: m.tokens.WithLabelValues(p, "output"),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byTo[s] = c
	return c
}

func (m *metrics) transition(t breaker.Transition) {
	m.trips.WithLabelValues(string(t.Provider), string(t.Connection), t.To.String(), t.Cause).Inc()
}

func (m *metrics) reload(ok bool) {
	result := "refused"
	if ok {
		result = "in_force"
	}
	m.reloads.WithLabelValues(result).Inc()
}

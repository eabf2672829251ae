// Package record answers one question: which scenario is it that a request log tells of? It turns decision logs into
// sources, faults and arrivals of the lab, so that the same load can be simulated under other settings. It is keyed by
// connection and upstream model. It only reads.
//
// What a source would have said to an attempt that was never made is drawn, with a seed, from what it said to those that
// were made: per connection and model, in windows of time that hold at least 20 attempts and last at least a minute.
// Three failures or more in a row are a window of their own, which lasts until the next attempt that went well. Before
// the first window and behind the last one the nearest holds. Nothing is known about a connection
// that was never asked, so it takes no part. An attempt that was broken off by one of the gateway's own clocks, or lost a
// race, is known only to have taken longer than that: it is given one and a half times the time that it was waited for.
package record

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"spillway/internal/gateway"
	"spillway/internal/lab/scenario"
)

// Windows of the distributions.
const (
	minSamples = 20
	minWindow  = time.Minute
	outageRun  = 3
)

// answerWords is the length of the answers of recorded sources, in words. Their time is that of the log.
const answerWords = 8

// Log is what was read of a log.
type Log struct {
	journeys []*gateway.Journey
	LeftOut  map[string]int // requests that are not replayed, by why
}

// New takes journeys in any order.
func New(journeys []*gateway.Journey) *Log {
	l := &Log{LeftOut: map[string]int{}}
	for _, j := range journeys {
		if why := unfit(j); why != "" {
			l.LeftOut[why]++
			continue
		}
		l.journeys = append(l.journeys, j)
	}
	slices.SortStableFunc(l.journeys, func(a, b *gateway.Journey) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(string(a.ID), string(b.ID)))
	})
	return l
}

// Len is the number of requests that are replayed.
func (l *Log) Len() int { return len(l.journeys) }

// unfit says why a request is not replayed; "" = it is.
func unfit(j *gateway.Journey) string {
	switch {
	case j.Operation != gateway.Generate:
		return "no completion"
	case j.PoolSize == 0 && len(j.Attempts) == 0 && j.CopyOf == "":
		return "refused before any candidate was looked at"
	case j.EndedAt.IsZero():
		return "without an end"
	}
	for i := range j.Attempts {
		switch j.Attempts[i].Kind {
		case gateway.Alive, gateway.ContentRefused, gateway.InvalidResult:
			return "ended by the caller's own fault"
		}
	}
	return ""
}

// Scenario is the log as a scenario. An error says what is missing.
func (l *Log) Scenario(name string) (scenario.Scenario, error) {
	if len(l.journeys) == 0 {
		return scenario.Scenario{}, errors.New("the log holds no request that can be replayed" + l.leftOut())
	}
	from := l.journeys[0].At
	pools := l.pools()
	s := scenario.Scenario{Name: name, About: "a request log", Load: scenario.Traffic{Calls: len(l.journeys), Arrivals: l.arrivals(from, pools)}}
	s.Sources = l.sources(from, pools)
	if len(s.Sources) == 0 {
		return s, errors.New("no attempt stands in the log, so nothing is known about any upstream")
	}
	for _, p := range pools {
		s.Gateway.Combos = append(s.Gateway.Combos, p.combo())
	}
	return s, s.Validate()
}

func (l *Log) leftOut() string {
	var b strings.Builder
	for why, n := range l.LeftOut {
		fmt.Fprintf(&b, "; %d %s", n, why)
	}
	return b.String()
}

// arrivals are the requests at their times. A request that got another's answer repeats it.
func (l *Log) arrivals(from time.Time, pools []*pool) []scenario.Arrival {
	asked := map[string]string{}
	for _, p := range pools {
		asked[p.asked] = p.name
	}
	number := map[gateway.RequestID]int{}
	out := make([]scenario.Arrival, 0, len(l.journeys))
	for i, j := range l.journeys {
		number[j.ID] = i + 1
		out = append(out, scenario.Arrival{At: j.At.Sub(from), Model: asked[j.Model], Stream: j.Stream, Protocol: j.Protocol,
			Words: max(8, j.Tokens*3/4), Of: number[j.CopyOf]})
	}
	return out
}

package cooldown

import (
	"math"
	"time"
)

// learnedFor is how long an inferred rate is believed without another 429.
const learnedFor = 24 * time.Hour

// inferRate counts an episode without a hint. The third within LearnWindow tells what the account really bears: the
// successes per minute since the first of them. Without any success there is no rate, only an outage.
func (s state) inferRate(e event) state {
	n := e.cfg.LearnEpisodes
	if n == 0 {
		return s
	}
	copy(s.bouts[1:], s.bouts[:maxBouts-1])
	s.bouts[0] = bout{at: e.now, ok: s.ok}
	first := s.bouts[n-1]
	took := e.now.Sub(first.at)
	if first.at.IsZero() || took > e.cfg.LearnWindow || took <= 0 || s.ok == first.ok {
		return s
	}
	s.Learned = max(float64(s.ok-first.ok)/took.Minutes(), 1)
	s.LearnedAt = e.now
	return s
}

// rpm is the inferred rate at now: a tenth more per LearnStep; 0 = none.
func (s *state) rpm(cfg *Config, now time.Time) float64 {
	if s.Learned == 0 {
		return 0
	}
	age := now.Sub(s.LearnedAt)
	if age > learnedFor {
		return 0
	}
	return s.Learned * math.Pow(1.1, float64(max(age, 0)/cfg.LearnStep))
}

// stepBack ends the growth of the inferred rate at a 429 that it let through: one step less than it had reached.
func (s state) stepBack(e event) state {
	if s.Learned == 0 || !e.began().After(s.LearnedAt) {
		return s
	}
	if now := s.rpm(e.cfg, e.now); now > 0 {
		s.Learned, s.LearnedAt = max(now/1.1, 1), e.now
		return s
	}
	s.Learned, s.LearnedAt = 0, time.Time{}
	return s
}

// forgetRate drops an inferred rate that is too old.
func (s state) forgetRate(now time.Time) state {
	if s.Learned != 0 && now.Sub(s.LearnedAt) > learnedFor {
		s.Learned, s.LearnedAt = 0, time.Time{}
	}
	return s
}

// nextAdmission is when the inferred rate lets the next attempt go; zero = at once.
func (s *state) nextAdmission(cfg *Config, now time.Time) time.Time {
	rpm := s.rpm(cfg, now)
	if rpm == 0 || s.admitAt.IsZero() {
		return time.Time{}
	}
	return s.admitAt.Add(time.Duration(float64(time.Minute) / rpm))
}

package lane

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden traces")

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestTraces plays the traces of testdata. A line is an instant and an event, as the headers of an answer or the end of a
// claim; behind -> stands what the room says and what it knows then.
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatal("no traces", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".trace"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			have := play(t, string(src))
			if *update {
				if err := os.WriteFile(file, []byte(have), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if have != string(src) {
				t.Errorf("have:\n%s", have)
			}
		})
	}
}

// play runs a trace and writes it anew with what the machine said.
func play(t *testing.T, src string) string {
	r := rules{Terms: Anthropic}
	var s state
	var out []string
	for line := range strings.Lines(src) {
		line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), "->")
		line = strings.TrimRight(line, " ")
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
			out = append(out, line)
			continue
		case words[0] == "wants":
			r.LowPriority, r.AutoReset = strings.Contains(line, "lane"), strings.Contains(line, "reset")
			out = append(out, line)
			continue
		}
		after, err := time.ParseDuration(words[0])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		e, claim := parse(t, words[1:], t0.Add(after))
		var m Move
		if claim != nil {
			s, m = r.claimed(s, *claim, e)
		} else {
			s, m = r.answered(s, e)
		}
		out = append(out, fmt.Sprintf("%-72s -> %s", line, tell(s, m)))
	}
	return strings.Join(out, "\n") + "\n"
}

// parse reads an event.
func parse(t *testing.T, words []string, now time.Time) (e event, claim *Claim) {
	h, status := http.Header{}, 200
	e = event{Again: true, Jitter: 0.5}
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		d, _ := time.ParseDuration(value)
		switch name {
		case "wall":
			status = 429
			h.Set(Anthropic.Wall, "rejected")
		case "offer":
			h.Set(Anthropic.Offer, "treatment")
		case "turns":
			h.Set(Anthropic.Reset, strconv.FormatInt(now.Add(d).Unix(), 10))
		case "slow":
			e.Slow = true
		case "slot":
			h.Set(Anthropic.Slot, value)
		case "overage":
			h.Set(Anthropic.Overage, "true")
		case "retry":
			h.Set(Anthropic.Retry, strconv.Itoa(int(d.Seconds())))
		case "most":
			h.Set(Anthropic.Most, strconv.Itoa(int(d.Seconds())))
		case "waited":
			e.Waited = d
		case "left":
			e.Left = d
		case "last":
			e.Again = false
		case "jitter":
			e.Jitter, _ = strconv.ParseFloat(value, 64)
		case "reset", "not_limited", "already_used", "failed":
			c := Claim{Failed: name == "failed", Done: name == "reset" || name == "not_limited", Kept: name == "not_limited"}
			if value != "" {
				c.NextAt = now.Add(d)
			}
			claim = &c
		default:
			if n, err := strconv.Atoi(name); err == nil {
				status = n
			} else {
				t.Fatalf("unknown word %q", w)
			}
		}
	}
	e.Answer, e.Now = Anthropic.Read(status, h, now), now
	return e, claim
}

func tell(s state, m Move) string {
	text := "pass"
	switch m.Do {
	case Again:
		text = fmt.Sprintf("again %s after %s, was %s", m.Why, m.After, m.Was)
	case AskReset:
		text = "ask for a reset"
	}
	text += "; " + phaseNames[s.Phase]
	if !s.Until.IsZero() {
		text += " until " + s.Until.Sub(t0).String()
	}
	if s.Why != "" {
		text += " (" + s.Why + ")"
	}
	if !s.ResetAt.IsZero() {
		text += ", reset again at " + s.ResetAt.Sub(t0).String()
	}
	return text
}

// TestAnyAnswers: whatever the provider says, nothing is sent in the lane before a wall with an offer, no wait leaves its
// bounds or the request's deadline, a hold is kept, and a reset is claimed once.
func TestAnyAnswers(t *testing.T) {
	slots := []string{"", "active", "not_needed", "slot_busy", "weekly_limit", "budget_exhausted", "off", "ineligible", "who knows"}
	rapid.Check(t, func(t *rapid.T) {
		r := rules{Terms: Anthropic, LowPriority: rapid.Bool().Draw(t, "lane"), AutoReset: rapid.Bool().Draw(t, "reset")}
		var s state
		now, claimedAt, waiting := t0, time.Time{}, false
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "s")) * time.Second)
			h := http.Header{}
			status := rapid.SampledFrom([]int{200, 429, 429, 529, 503}).Draw(t, "status")
			if rapid.Bool().Draw(t, "wall") {
				h.Set(Anthropic.Wall, "rejected")
			}
			if rapid.Bool().Draw(t, "offer") {
				h.Set(Anthropic.Offer, "treatment")
			}
			h.Set(Anthropic.Reset, strconv.FormatInt(now.Add(time.Duration(rapid.IntRange(-3600, 20*86400).Draw(t, "turns"))*time.Second).Unix(), 10))
			h.Set(Anthropic.Slot, rapid.SampledFrom(slots).Draw(t, "slot"))
			h.Set(Anthropic.Retry, strconv.Itoa(rapid.IntRange(-5, 5000).Draw(t, "retry")))
			h.Set(Anthropic.Most, strconv.Itoa(rapid.IntRange(-5, 50000).Draw(t, "most")))
			before := r.turned(s, now)
			e := event{Answer: Anthropic.Read(status, h, now), Now: now, Again: rapid.Bool().Draw(t, "again"),
				Slow: before.Phase == active && rapid.Bool().Draw(t, "slow"), Jitter: rapid.Float64Range(0, 0.999).Draw(t, "jitter"),
				Left: time.Duration(rapid.IntRange(0, 900).Draw(t, "left")) * time.Second, Waited: time.Duration(rapid.IntRange(0, 1500).Draw(t, "waited")) * time.Second}
			var m Move
			if waiting && rapid.Bool().Draw(t, "answered") {
				waiting, e.Again = false, true // it was asked for on behalf of a request that may go on
				s, m = r.claimed(s, Claim{Failed: rapid.Bool().Draw(t, "failed"), Done: rapid.Bool().Draw(t, "done")}, e)
			} else {
				s, m = r.answered(s, e)
			}
			if before.Phase != active && s.Phase == active && (!r.LowPriority || !e.Wall || !e.Offered || before.Phase == held) {
				t.Fatalf("the lane opens: %+v, %+v", before, e)
			}
			if s.Phase == active && (!s.Until.After(now) || s.Until.After(now.Add(Anthropic.SpentMost+Anthropic.Grace))) ||
				s.Phase == held && s.Until.After(now.Add(Anthropic.SpentMost+Anthropic.Hold)) {
				t.Fatalf("%s until %s at %s", phaseNames[s.Phase], s.Until, now)
			}
			if before.Phase == active && s.Phase == held && s.Until.Before(now.Add(Anthropic.Hold)) {
				t.Fatal("held for less than the hold")
			}
			if m.Do == Again {
				if m.Why == 0 || m.Was == 0 || !e.Again {
					t.Fatalf("%+v", m)
				}
				if m.After != 0 && (m.After < Anthropic.WaitLeast || m.After > Anthropic.WaitMost || e.Left > 0 && m.After > e.Left-Anthropic.Margin) {
					t.Fatalf("waits %s of %s", m.After, e.Left)
				}
			}
			if m.Do == AskReset {
				if !r.AutoReset || !claimedAt.IsZero() && now.Sub(claimedAt) < Anthropic.ClaimLease {
					t.Fatal("two claims at once")
				}
				claimedAt, waiting = now, true
			}
		}
	})
}

func TestReadOffer(t *testing.T) {
	for body, want := range map[string]struct {
		available, failed bool
		next              time.Time
	}{
		`{"juniper_tide":{"arm":"reset","available":true}}`:                                             {available: true},
		`{"juniper_tide":{"arm":"control","available":true}}`:                                           {},
		`{"juniper_tide":{"arm":"reset","available":false,"next_available_at":"2026-03-08T12:00:00Z"}}`: {next: t0.Add(7 * 24 * time.Hour)},
		`{"five_hour":{}}`: {failed: true},
		`<html>`:           {failed: true},
	} {
		available, c := Anthropic.ReadOffer([]byte(body))
		if available != want.available || c.Failed != want.failed || !c.NextAt.Equal(want.next) {
			t.Errorf("%s: %t %+v", body, available, c)
		}
	}
}

func TestReadClaim(t *testing.T) {
	for _, row := range []struct {
		status int
		body   string
		want   Claim
	}{
		{200, `{"result":"reset","next_available_at":1772971200}`, Claim{Done: true, NextAt: time.Unix(1772971200, 0)}},
		{200, `{"result":"not_limited"}`, Claim{Done: true, Kept: true}},
		{200, `{"result":"already_used","next_available_at":"2026-03-08T12:00:00Z"}`, Claim{NextAt: t0.Add(7 * 24 * time.Hour)}},
		{200, `{"result":"not_offered"}`, Claim{}},
		{200, `{}`, Claim{Failed: true}},
		{500, `{"result":"reset"}`, Claim{Failed: true}},
		{200, `x`, Claim{Failed: true}},
	} {
		if c := Anthropic.ReadClaim(row.status, []byte(row.body)); c.Done != row.want.Done || c.Kept != row.want.Kept ||
			c.Failed != row.want.Failed || !c.NextAt.Equal(row.want.NextAt) {
			t.Errorf("%d %s: %+v", row.status, row.body, c)
		}
	}
}

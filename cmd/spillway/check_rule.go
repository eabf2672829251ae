package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"spillway/internal/attempt"
	"spillway/internal/catalog"
	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/protocol"
	"spillway/internal/protocol/families"
	"spillway/internal/resilience/verdict"
	"spillway/internal/sse"
)

const ruleHelp = `Example of a dry run:

  echo '{"error":{"code":"1302","message":"slow down"}}' |
    spillway check --rule --provider glm --status 429 --header 'Retry-After: 7' --body -

It prints the status after restatement, the rule that matched and why, the rules that nearly did, the outcome, and what
every mechanism does with it. Nothing is sent anywhere. With --expect it is a test of your rules: exit code 1 when the
outcome is another one. Exit code 2 when the command line or the configuration is wrong.`

// ruleAnswer describes one answer of an upstream.
type ruleAnswer struct {
	Provider   string   `help:"Provider that answered: an id of the configuration, or a preset. Default: that of --connection, else the only one configured, else none." placeholder:"ID"`
	Connection string   `help:"Connection that was used." placeholder:"ID"`
	Model      string   `help:"Model that was asked for, as the provider knows it." placeholder:"ID"`
	Status     int      `help:"HTTP status, 100-599. Default 200 with --stream, else 500." placeholder:"N"`
	Header     []string `help:"A response header; may be given several times." sep:"none" placeholder:"'NAME: VALUE'"`
	Body       string   `help:"File with the body, or - for standard input." placeholder:"FILE"`
	Stream     bool     `help:"The body is an event stream, or one event of it, that began with a 200."`
	Request    string   `help:"File with the client's request: words that stand in it prove nothing." placeholder:"FILE"`
	Expect     string   `help:"Kind of outcome, or rule, that must come out; else exit code 1." placeholder:"KIND|RULE"`
	JSON       bool     `help:"Print as JSON." name:"json"`
}

func (a *ruleAnswer) given() bool { return !reflect.ValueOf(*a).IsZero() }

// dryRun judges the answer with the rules of the configuration and prints the explanation.
func (a *ruleAnswer) dryRun(snap *catalog.Snapshot, o *out) error {
	e, err := a.evidence(snap)
	if err != nil {
		return err
	}
	x := snap.Config().RuleSet().Explain(e)
	if a.JSON {
		err = printJSON(o, x)
	} else {
		err = printExplanation(o, x)
	}
	if err != nil {
		return err
	}
	if a.Expect != "" && a.Expect != x.Outcome.Kind.String() && a.Expect != x.Outcome.Rule {
		fmt.Fprintf(o.err, "spillway: the outcome is %s, by %s; expected %s\n", x.Outcome.Kind, by(x), a.Expect)
		return exitError(exitFailed)
	}
	return nil
}

// evidence is the answer as an attempt would hand it to the verdict.
func (a *ruleAnswer) evidence(snap *catalog.Snapshot) (e verdict.Evidence, err error) {
	conn, err := a.candidate(snap)
	if err != nil {
		return e, err
	}
	now := time.Now()
	e = verdict.Evidence{Candidate: gateway.Candidate{Connection: conn, Model: gateway.ModelID(a.Model)}, Status: a.Status, Header: http.Header{},
		BeganAt: now.Add(-time.Second), EndedAt: now}
	switch {
	case a.Status == 0 && a.Stream:
		e.Status = http.StatusOK
	case a.Status == 0:
		e.Status = http.StatusInternalServerError
	case a.Status < 100 || a.Status > 599:
		return e, misuse(fmt.Sprintf("--status %d: a status is between 100 and 599", a.Status))
	}
	if a.Stream && e.Status >= 300 {
		return e, misuse("--stream is an error inside a 200; leave --status out, or leave --stream out")
	}
	for _, h := range a.Header {
		name, value, ok := strings.Cut(h, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return e, misuse(fmt.Sprintf("--header %q: write 'NAME: VALUE'", h))
		}
		e.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	body, err := readInput(a.Body)
	if err != nil {
		return e, err
	}
	request, err := readInput(a.Request)
	if err != nil {
		return e, err
	}
	if request != nil {
		e.RequestText = func() []byte { return request }
	}
	e.Body = body[:min(len(body), 64<<10)]
	if e.Status >= 200 && e.Status < 300 {
		a.readAnswer(&e, body, familyOf(conn))
	}
	return e, nil
}

// candidate finds the connection. A provider without one, and a preset that the configuration does not use, get one that
// exists only here.
func (a *ruleAnswer) candidate(snap *catalog.Snapshot) (*gateway.Connection, error) {
	if a.Connection != "" {
		conn, ok := snap.Connection(gateway.ConnectionID(a.Connection))
		if !ok {
			return nil, misuse(fmt.Sprintf("no connection %q is configured", a.Connection))
		}
		if a.Provider != "" && string(conn.Provider.ID) != a.Provider {
			return nil, misuse(fmt.Sprintf("connection %q is one of provider %q, not of %q", a.Connection, conn.Provider.ID, a.Provider))
		}
		return conn, nil
	}
	if a.Provider == "" {
		if all := snap.Providers(); len(all) == 1 && !snap.Config().LabOnly {
			return &gateway.Connection{Provider: all[0], Credential: gateway.NewCredential("", nil)}, nil
		}
		return nil, nil
	}
	p, ok := snap.Provider(gateway.ProviderID(a.Provider))
	if !ok {
		preset, known := config.PresetByName(a.Provider)
		if !known {
			return nil, misuse(fmt.Sprintf("no provider %q is configured, and no preset has that name", a.Provider))
		}
		p = presetProvider(a.Provider, preset)
	}
	return &gateway.Connection{Provider: p, Credential: gateway.NewCredential("", nil)}, nil
}

func presetProvider(id string, s config.Preset) *gateway.Provider {
	p := &gateway.Provider{ID: gateway.ProviderID(id), BaseURL: s.BaseURL, PerModelQuota: s.PerModelQuota}
	for name := range strings.FieldsSeq(s.Protocols) {
		if proto, err := gateway.ParseProtocol(name); err == nil { // a table's own words
			p.Protocols = append(p.Protocols, proto)
		}
	}
	p.Class, _ = gateway.ParseClass(s.Class) // "" is apikey, the zero value
	return p
}

func familyOf(conn *gateway.Connection) protocol.Family {
	if conn != nil && len(conn.Provider.Protocols) > 0 {
		return families.For(conn.Provider.Protocols[0])
	}
	return families.For(gateway.OpenAI)
}

// readAnswer lets the provider's protocol say what a 200 is: an answer, an error, or neither.
func (a *ruleAnswer) readAnswer(e *verdict.Evidence, body []byte, family protocol.Family) {
	var s protocol.Signal
	if a.Stream {
		readStream(body, family, &s)
	} else {
		family.Body(e.Header.Get("Content-Type"), body, &s)
	}
	switch {
	case s.Flags.Has(protocol.Error):
		e.InStream, e.Body, e.Code, e.Type, e.Message = true, s.ErrBody, s.Code, s.Type, s.Message
		if s.ErrStatus != 0 {
			e.Status = s.ErrStatus
		}
	case s.Flags.Has(protocol.NotCompletion):
		e.NotCompletion = true
	default:
		e.Terminal, e.Content, e.Empty = s.Flags.Has(protocol.Terminal), s.Flags.Has(protocol.Content), s.Empty()
		e.Refused = s.Flags.Has(protocol.Refused) && !e.Content
	}
}

// readStream stops at the first error. What is no event stream is taken as the data of one event.
func readStream(body []byte, family protocol.Family, sum *protocol.Signal) {
	text := bytes.TrimSpace(body)
	if len(text) > 0 && (text[0] == '{' || text[0] == '[') {
		family.Event(nil, text, sum)
		return
	}
	r := sse.NewReader(io.MultiReader(bytes.NewReader(body), strings.NewReader("\n\n")), 0)
	for ended := false; !ended; {
		_, err := r.Fill()
		ended = err != nil
		for {
			ev, ok, err := r.Next()
			if err != nil || !ok {
				break
			}
			data := ev.Data
			if ev.Stray {
				data = ev.Raw
			} else if ev.Comment {
				continue
			}
			var s protocol.Signal
			family.Event(ev.Name, data, &s)
			if s.Flags.Has(protocol.Error) {
				s.ErrBody = slices.Clone(s.ErrBody) // it points into the reader
				*sum = s
				return
			}
			sum.Add(&s)
		}
	}
}

// readInput reads a file, or standard input for "-"; nil for "".
func readInput(name string) ([]byte, error) {
	const most = 8 << 20
	switch name {
	case "":
		return nil, nil
	case "-":
		return io.ReadAll(io.LimitReader(os.Stdin, most))
	}
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, misuse(fmt.Sprintf("there is no file %q", name))
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

func by(x verdict.Explanation) string {
	if x.Rule != nil {
		return "rule " + x.Rule.ID
	}
	return x.Without
}

func printExplanation(o *out, x verdict.Explanation) error {
	t := tabwriter.NewWriter(o, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	status := verdict.StatusText(x.Received)
	if x.Inside {
		status = fmt.Sprintf("%s, of an error inside a 200", verdict.StatusText(x.Said))
	}
	row("STATUS", "%s", status)
	if x.Restated != nil {
		row("RESTATED", "%s, by %s", verdict.StatusText(x.Status), name(*x.Restated))
		printFacts(row, x.Restated.Facts)
	}
	if x.Text != "" {
		row("TEXT", "%s", shorten(x.Text))
	}
	if len(x.Codes) > 0 {
		row("CODES", "%s", strings.Join(x.Codes, ", "))
	}
	if x.Rule != nil {
		row("RULE", "%s", name(*x.Rule))
		printFacts(row, x.Rule.Facts)
	}
	if x.Without != "" {
		row("DECIDED BY", "%s", x.Without)
	}
	for _, m := range x.Misses {
		for i, f := range m.Failed() {
			title, id := "", ""
			if i == 0 {
				title, id = "NOT", name(m)+": "
			}
			row(title, "%s%s wants %s, found %s", id, f.Field, shorten(f.Want), shorten(f.Have))
		}
	}
	for _, l := range x.Later {
		row("TOO LATE", "%s holds as well, but comes after the one that decided", name(l))
	}
	printOutcome(row, x.Outcome)
	return t.Flush()
}

func printFacts(row func(name, format string, args ...any), facts []verdict.Fact) {
	for _, f := range facts {
		row("", "because %s wants %s, found %s", f.Field, shorten(f.Want), shorten(f.Have))
	}
}

func printOutcome(row func(name, format string, args ...any), o gateway.Outcome) {
	row("OUTCOME", "%s, scope %s, reason %s, status %d", o.Kind, o.Scope, o.Reason, o.Status)
	if o.RetryAfter > 0 {
		row("RETRY AFTER", "%s, from %s", o.RetryAfter, hintWords(o.Hint))
	}
	if o.Quirk != "" {
		row("FEATURE", "%s", o.Quirk)
	}
	row("COUNTS", "%t", !o.Uncounted)
	for _, c := range attempt.Consequences(o) {
		row(strings.ToUpper(c.Who), "%s", c.What)
	}
}

// hintWords says where a time comes from; a rule's is its cooldown.
func hintWords(h gateway.HintSource) string {
	if h == gateway.HintRule {
		return "the rule (or the table of statuses)"
	}
	return "the upstream: " + h.String()
}

func name(a verdict.Asked) string {
	what := "rule"
	if a.Restatement {
		what = "restatement"
	}
	if a.Builtin {
		what = "built-in " + what
	}
	return what + " " + a.ID
}

// shorten keeps long patterns and texts on a line.
func shorten(s string) string {
	const most = 120
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// outcomeJSON is an outcome in the words of the configuration; times are seconds.
type outcomeJSON struct {
	Kind       gateway.Kind   `json:"kind"`
	Scope      gateway.Scope  `json:"scope"`
	Reason     gateway.Reason `json:"reason"`
	Status     int            `json:"status"`
	RetryAfter float64        `json:"retry_after_seconds,omitempty"`
	HintFrom   string         `json:"retry_after_from,omitempty"`
	Cooldown   float64        `json:"cooldown_seconds,omitempty"` // the rule's own
	TellAfter  float64        `json:"tell_client_seconds,omitempty"`
	Rule       string         `json:"rule,omitempty"`
	Count      bool           `json:"count"`
	Feature    string         `json:"quirk,omitempty"`
	Retired    bool           `json:"retired,omitempty"`
	Evidence   bool           `json:"structured"`
	Code       string         `json:"code,omitempty"`
	Type       string         `json:"type,omitempty"`
	Message    string         `json:"message,omitempty"`
}

func printJSON(o *out, x verdict.Explanation) error {
	c := x.Outcome
	said := outcomeJSON{Kind: c.Kind, Scope: c.Scope, Reason: c.Reason, Status: c.Status, RetryAfter: c.RetryAfter.Seconds(), TellAfter: c.TellAfter.Seconds(),
		Rule: c.Rule, Count: !c.Uncounted, Feature: c.Quirk, Retired: c.Retired, Evidence: c.Structured, Code: c.Code, Type: c.Type, Message: c.Message}
	if c.RetryAfter > 0 {
		said.HintFrom = c.Hint.String()
	}
	if c.Hint == gateway.HintRule {
		said.Cooldown = said.RetryAfter
	}
	enc := json.NewEncoder(o)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(struct {
		verdict.Explanation
		Outcome      outcomeJSON           `json:"outcome"`
		Consequences []attempt.Consequence `json:"consequences"`
	}{x, said, attempt.Consequences(c)})
}

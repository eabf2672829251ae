package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"spillway/internal/gateway"
)

// Each line adds one layer; the last one that says something wins.
func TestResiliencePrecedence(t *testing.T) {
	const (
		variable   = "SPILLWAY_RESILIENCE_BREAKER_CONSEC_THRESHOLD"
		file       = "resilience: {breaker: {consec_threshold: 12}}\n"
		provider   = ", resilience: {breaker: {consec_threshold: 13}}"
		connection = ", resilience: {breaker: {consec_threshold: 14}}"
		stored     = "resilience: {breaker: {consec_threshold: 15}}\n"
	)
	for _, c := range []struct {
		name                       string
		env                        []string
		file, stored, prov, conn   string
		global, atProv, atConn     int
		gOrigin, pOrigin, cOrigin  string
		originPath, storedConflict string
	}{
		{name: "profile", global: 5, atProv: 5, atConn: 5, gOrigin: "profile recommended", pOrigin: "profile recommended", cOrigin: "profile recommended"},
		{name: "environment", env: []string{variable, "11"}, global: 11, atProv: 11, atConn: 11,
			gOrigin: "environment " + variable, pOrigin: "environment " + variable, cOrigin: "environment " + variable},
		{name: "file", env: []string{variable, "11"}, file: file, global: 12, atProv: 12, atConn: 12,
			gOrigin: "file f.yaml (f.yaml:1)", pOrigin: "file f.yaml (f.yaml:1)", cOrigin: "file f.yaml (f.yaml:1)"},
		{name: "stored", env: []string{variable, "11"}, file: file, stored: stored, global: 15, atProv: 15, atConn: 15,
			gOrigin: "stored settings (stored settings:1)", pOrigin: "stored settings (stored settings:1)", cOrigin: "stored settings (stored settings:1)"},
		{name: "provider", env: []string{variable, "11"}, file: file, stored: stored, prov: provider, global: 15, atProv: 13, atConn: 13,
			gOrigin: "stored settings (stored settings:1)", pOrigin: "provider p (f.yaml:2)", cOrigin: "provider p (f.yaml:2)"},
		{name: "connection", env: []string{variable, "11"}, file: file, stored: stored, prov: provider, conn: connection, global: 15, atProv: 13, atConn: 14,
			gOrigin: "stored settings (stored settings:1)", pOrigin: "provider p (f.yaml:2)", cOrigin: "connection c (f.yaml:3)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			head := c.file
			if head == "" {
				head = "\n"
			}
			doc := head + "providers: {p: {protocols: [openai], base_url: 'http://127.0.0.1:1'" + c.prov + "}}\n" +
				"connections: [{id: c, provider: p, key: k" + c.conn + "}]\n"
			cfg, err := Load(Source{Path: "f.yaml", Bytes: []byte(doc), Stored: []byte(c.stored), Env: env(c.env...)})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range []struct {
				where  string
				got    *Settings
				want   int
				origin string
			}{{"global", cfg.Global(), c.global, c.gOrigin}, {"provider", cfg.ProviderSettings("p"), c.atProv, c.pOrigin},
				{"connection", cfg.Settings("c"), c.atConn, c.cOrigin}} {
				if s.got.Breaker.ConsecThreshold != s.want {
					t.Errorf("%s: %d, want %d", s.where, s.got.Breaker.ConsecThreshold, s.want)
				}
				if o := s.got.Origin("resilience.breaker.consec_threshold").String(); o != s.origin {
					t.Errorf("%s: origin %q, want %q", s.where, o, s.origin)
				}
				if s.got.Breaker.SuccessThreshold != 2 {
					t.Errorf("%s: a field that nobody wrote changed", s.where)
				}
			}
		})
	}
}

func TestProfiles(t *testing.T) {
	doc := `
resilience: {profile: omniroute, cooldown: {max_hint: 7m}}
providers:
  o: {protocols: [anthropic], base_url: "http://127.0.0.1:1", class: oauth}
  k: {protocols: [openai], base_url: "http://127.0.0.1:1"}
  l: {protocols: [openai], base_url: "http://127.0.0.1:1", class: local}
  r: {protocols: [openai], base_url: "http://127.0.0.1:1", class: local, resilience: {profile: recommended}}
  p: {protocols: [openai], base_url: "http://127.0.0.1:1", resilience: {profile: polygateway}}
connections:
  - {id: o, provider: o, key: k}
  - {id: o2, provider: o, key: k2, resilience: {profile: autorouter, breaker: {open_base: 1s}}}
`
	c := load(t, doc)
	for _, w := range []struct {
		name                       string
		s                          *Settings
		profile                    string
		consec                     int
		openBase, base, lastChance time.Duration
	}{
		{"oauth by class", c.Settings("o"), "omniroute", 8, time.Minute, 5 * time.Second, 5 * time.Minute},
		{"apikey by class", c.ProviderSettings("k"), "omniroute", 12, 30 * time.Second, 3 * time.Second, 5 * time.Minute},
		{"local by class", c.ProviderSettings("l"), "omniroute", 2, 15 * time.Second, 3 * time.Second, 10 * time.Minute},
		{"provider's own profile", c.ProviderSettings("r"), "recommended", 5, 10 * time.Second, 3 * time.Second, 10 * time.Minute},
		{"polygateway", c.ProviderSettings("p"), "polygateway", 5, time.Minute, 3 * time.Second, 5 * time.Minute},
		{"connection's own profile", c.Settings("o2"), "autorouter", 5, time.Second, 5 * time.Second, 5 * time.Minute},
	} {
		if w.s.Profile != w.profile || w.s.Breaker.ConsecThreshold != w.consec || w.s.Breaker.OpenBase != w.openBase ||
			w.s.Cooldown.Base != w.base || w.s.Timeouts.LastChance != w.lastChance {
			t.Errorf("%s: %s consec %d open %v base %v last chance %v", w.name, w.s.Profile, w.s.Breaker.ConsecThreshold,
				w.s.Breaker.OpenBase, w.s.Cooldown.Base, w.s.Timeouts.LastChance)
		}
		if w.s.Cooldown.MaxHint != 7*time.Minute {
			t.Errorf("%s: the file's setting is lost under the profile", w.name)
		}
	}
}

// Every profile that the schema offers passes the checks of every room, for every class.
func TestEveryProfileIsValid(t *testing.T) {
	for _, f := range fieldsOf(reflect.TypeFor[Resilience]()) {
		if f.name != "profile" {
			continue
		}
		for _, profile := range f.enum {
			for _, class := range []gateway.Class{gateway.APIKey, gateway.OAuth, gateway.Local} {
				b := builtin(profile, class)
				s := &Settings{Resilience: b.Resilience, Timeouts: b.Timeouts}
				for _, p := range s.validate("") {
					t.Errorf("%s, %s: %s", profile, class, p)
				}
			}
		}
	}
}

func TestTimeoutsPrecedence(t *testing.T) {
	c := load(t, `
timeouts: {idle: 20s, connect: 4s}
providers:
  p: {protocols: [openai], base_url: "http://127.0.0.1:1", timeouts: {idle: 21s, total: 9s}}
connections:
  - {id: a, provider: p, key: k}
  - {id: b, provider: p, key: k, timeouts: {idle: 22s}}
`, "SPILLWAY_TIMEOUTS_IDLE", "19s", "SPILLWAY_TIMEOUTS_HEADERS", "18s", "SPILLWAY_WAITS_MAX_WAIT", "17s", "SPILLWAY_LIMITS_BODY", "1MiB")
	a, b := c.Settings("a").Timeouts, c.Settings("b").Timeouts
	if a.Idle != 21*time.Second || a.Total != 9*time.Second || a.Connect != 4*time.Second || a.Headers != 18*time.Second || b.Idle != 22*time.Second || b.Total != 9*time.Second {
		t.Errorf("%+v %+v", a, b)
	}
	if c.Waits.MaxWait != 17*time.Second || c.Limits.Body != 1<<20 {
		t.Errorf("%+v %+v", c.Waits, c.Limits)
	}
	if got := load(t, "waits: {max_wait: 16s}", "SPILLWAY_WAITS_MAX_WAIT", "17s").Waits.MaxWait; got != 16*time.Second {
		t.Errorf("the file does not win over the variable: %v", got)
	}
}

func TestBadVariables(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"SPILLWAY_RESILIENCE_BREAKER_CONSEC_THRESHOLD", "many", `resilience.breaker.consec_threshold: "${SPILLWAY_RESILIENCE_BREAKER_CONSEC_THRESHOLD}" is not a whole number`},
		{"SPILLWAY_RESILIENCE_PROFILE", "sk-live-0123456789", "resilience.profile: "},
		{"SPILLWAY_RESILIENCE_BREAKER_OPEN_MAX", "1s", "resilience.breaker.open_max: must be at least open_base"},
		{"SPILLWAY_TIMEOUTS_IDLE", "30", "timeouts.idle: "},
		{"SPILLWAY_RESILIENCE_LOCKOUT_ERROR_CODES", "404,x", "resilience.lockout.error_codes[1]: "},
	} {
		_, err := Load(Source{Bytes: []byte{}, Env: env(c.name, c.value)})
		if err == nil || !strings.Contains(err.Error(), c.name+": ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "sk-live") {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		}
	}
	c := load(t, "", "SPILLWAY_RESILIENCE_LOCKOUT_ERROR_CODES", "404, 503", "SPILLWAY_RESILIENCE_PACING_QUEUE_MAX_WAIT", "5s", "SPILLWAY_RESILIENCE_LOCKOUT_ENABLED", "true")
	if l := c.Global().Lockout; len(l.ErrorCodes) != 2 || l.ErrorCodes[1] != 503 || !l.Enabled || c.Global().Pacing.Queue.MaxWait != 5*time.Second {
		t.Errorf("%+v", l)
	}
}

func TestExplain(t *testing.T) {
	c := load(t, "resilience: {breaker: {open_max: 2m}}")
	byPath := map[string]Setting{}
	for _, s := range c.Global().Explain(gateway.APIKey) {
		byPath[s.Path] = s
	}
	if s := byPath["resilience.breaker.open_max"]; s.Value != "2m0s" || s.Default != "5m0s" || s.Origin.Layer != "file" {
		t.Errorf("%+v", s)
	}
	if s := byPath["timeouts.idle"]; s.Value != "30s" || s.Origin.Layer != "profile" {
		t.Errorf("%+v", s)
	}
	if len(byPath) < 80 {
		t.Errorf("%d settings", len(byPath))
	}
}

func TestAdd(t *testing.T) {
	c := load(t, "timeouts: {idle: 7s}")
	lab := &Provider{ID: "lab", Protocols: []gateway.Protocol{gateway.OpenAI}, BaseURL: "http://127.0.0.1:9/v1", Lab: true}
	if err := c.Add(lab, &Connection{ID: "lab-1", Key: "k"}, &Connection{ID: "lab-2"}); err != nil {
		t.Fatal(err)
	}
	if s := c.Settings("lab-2"); s == nil || s.Timeouts.Idle != 7*time.Second || c.Connections[0].Credential.Value() != "k" || c.Connections[1].Weight != 1 {
		t.Errorf("%+v", s)
	}
	for _, bad := range []struct {
		p *Provider
		c *Connection
	}{{lab, &Connection{ID: "x"}}, {&Provider{ID: "y"}, nil}, {&Provider{ID: "z", Protocols: lab.Protocols, BaseURL: "u"}, &Connection{ID: "lab-1"}}} {
		conns := []*Connection{bad.c}
		if bad.c == nil {
			conns = nil
		}
		if err := c.Add(bad.p, conns...); err == nil || len(c.Providers) != 1 || len(c.Connections) != 2 {
			t.Errorf("%+v is added", bad.p.ID)
		}
	}
}

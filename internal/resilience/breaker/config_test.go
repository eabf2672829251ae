package breaker

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

func TestPresetsAreValid(t *testing.T) {
	for _, name := range Presets() {
		c, ok := Preset(name)
		if !ok {
			t.Fatalf("%s is listed and not there", name)
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(c.Kinds) > 0 {
			for k := range c.Kinds {
				c.Kinds[k] = KindPolicy{OpenMS: 1}
			}
			if again, _ := Preset(name); reflect.DeepEqual(again.Kinds, c.Kinds) {
				t.Errorf("%s shares its maps", name)
			}
		}
	}
	if _, ok := Preset("nonsense"); ok {
		t.Error("an unknown preset was found")
	}
}

// TestPresetNumbers pins the numbers of spec breaker.md section 3 that no golden trace shows.
func TestPresetNumbers(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		name               string
		threshold, degrade int
		base, max          time.Duration
		wcount             int
		wwindow, wopen     time.Duration
	}{
		{PresetOmniOAuth, 8, 5, 60 * s, 960 * s, 10, 900 * s, 300 * s},
		{PresetOmniAPIKey, 12, 7, 30 * s, 480 * s, 15, 1800 * s, 600 * s},
		{PresetOmniLocal, 2, 0, 15 * s, 240 * s, 2, 300 * s, 60 * s},
		{PresetPolyGateway, 5, 0, 60 * s, 300 * s, 0, 0, 0},
		{PresetAutoRouter, 5, 0, 300 * s, 300 * s, 0, 0, 0},
		{PresetRecommended, 5, 3, 10 * s, 300 * s, 0, 0, 0},
	} {
		p, _ := Preset(c.name)
		if p.ConsecThreshold != c.threshold || p.DegradeThreshold != c.degrade || p.OpenBase != c.base ||
			p.OpenMax != c.max || p.WcountThreshold != c.wcount || p.WcountWindow != c.wwindow || p.WcountOpen != c.wopen {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

// TestValidateNamesTheField breaks one field at a time.
func TestValidateNamesTheField(t *testing.T) {
	for field, breakIt := range map[string]func(*Config){
		"scope":              func(c *Config) { c.Scope = "galaxy" },
		"auto_window":        func(c *Config) { c.AutoWindow = 0 },
		"count_mode":         func(c *Config) { c.CountMode = "" },
		"consec_threshold":   func(c *Config) { c.ConsecThreshold, c.DegradeThreshold = 0, 0 },
		"consec_conc_factor": func(c *Config) { c.ConsecConcFactor = -1 },
		"count_gap":          func(c *Config) { c.CountGap = time.Hour },
		"degrade_threshold":  func(c *Config) { c.DegradeThreshold = 5 },
		"degrade_rate":       func(c *Config) { c.DegradeRate = 2 },
		"rate_threshold":     func(c *Config) { c.RateThreshold = 0.7 },
		"rate_min_calls":     func(c *Config) { c.RateMinCalls = 1 },
		"rate_window":        func(c *Config) { c.RateWindow = time.Millisecond },
		"rate_buckets":       func(c *Config) { c.RateBuckets = 3 },
		"evidence_mode":      func(c *Config) { c.CountMode = CountLeaky },
		"wcount_threshold":   func(c *Config) { c.ProviderCooldown.Enabled, c.WcountWindow = true, time.Minute },
		"wcount_window":      func(c *Config) { c.ProviderCooldown.Enabled, c.WcountThreshold = true, 3 },
		"wcount_open":        func(c *Config) { c.WcountOpen = -1 },
		"open_base":          func(c *Config) { c.OpenBase = 0 },
		"open_factor":        func(c *Config) { c.OpenFactor = 0 },
		"open_max":           func(c *Config) { c.OpenMax = time.Second },
		"open_growth":        func(c *Config) { c.OpenGrowth = "weed" },
		"escalate_after":     func(c *Config) { c.EscalateAfter = -1 },
		"streak_on":          func(c *Config) { c.StreakOn = []string{"luck"} },
		"streak_reset":       func(c *Config) { c.StreakReset = "never" },
		"stable_factor":      func(c *Config) { c.StableFactor = -1 },
		"open_jitter":        func(c *Config) { c.OpenJitter = 0.6 },
		"probe_permits":      func(c *Config) { c.ProbePermits = 17 },
		"probe_interval":     func(c *Config) { c.ProbeInterval = -1 },
		"probe_ttl":          func(c *Config) { c.ProbeTTL = -1 },
		"probe_source":       func(c *Config) { c.ProbeSource = "dead" },
		"success_threshold":  func(c *Config) { c.SuccessThreshold = 0 },
		"kinds.timeout.class": func(c *Config) {
			c.Kinds = map[string]KindPolicy{"timeout": {Class: "maybe"}}
		},
		"kinds.hiccup":     func(c *Config) { c.Kinds = map[string]KindPolicy{"hiccup": {}} },
		"kinds.success":    func(c *Config) { c.Kinds = map[string]KindPolicy{"success": {Class: ClassCount}} },
		"counted_statuses": func(c *Config) { c.CountedStatuses = []int{42} },
		"backend_down":     func(c *Config) { c.BackendDown = "shrug" },
	} {
		c := Recommended()
		breakIt(&c)
		err := c.Validate()
		if err == nil {
			t.Errorf("%s: accepted", field)
			continue
		}
		if !strings.Contains("\n"+err.Error(), "\n"+field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestYAML checks the names of the fields and that a partial document overlays a preset.
func TestYAML(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9_]+$`)
	for _, typ := range []reflect.Type{reflect.TypeFor[Config](), reflect.TypeFor[KindPolicy](), reflect.TypeFor[ProviderCooldown]()} {
		for field := range typ.Fields() {
			if tag := field.Tag.Get("yaml"); !name.MatchString(tag) {
				t.Errorf("%s.%s: tag %q", typ.Name(), field.Name, tag)
			}
		}
	}
	c := Recommended()
	doc := "consec_threshold: 7\nopen_base: 2s\nprovider_cooldown: {enabled: true}\nkinds: {timeout: {weight: 2, open_ms: 1500}}\n"
	if err := yaml.UnmarshalWithOptions([]byte(doc), &c, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if c.ConsecThreshold != 7 || c.OpenBase != 2*time.Second || c.OpenMax != 5*time.Minute || !c.ProviderCooldown.Enabled ||
		c.Kinds["timeout"].Weight != 2 {
		t.Errorf("%+v", c)
	}
	if r := compile(c, 0, time.Second); r.kinds[6].weight != 2 || r.kinds[6].open != 15e8 {
		t.Errorf("%+v", r.kinds[6])
	}
}

// TestProbeLease: a lease that nobody renews outlives the longest silent attempt, whatever probe_ttl says.
func TestProbeLease(t *testing.T) {
	for _, c := range []struct {
		ttl   time.Duration
		renew bool
		want  time.Duration
	}{{0, true, 65 * time.Second}, {0, false, 65 * time.Second}, {15 * time.Second, true, 15 * time.Second},
		{15 * time.Second, false, 65 * time.Second}, {2 * time.Minute, false, 2 * time.Minute}} {
		cfg := Recommended()
		cfg.ProbeTTL, cfg.ProbeRenew = c.ttl, c.renew
		if got := compile(cfg, 0, time.Minute).ttl; got != int64(c.want) {
			t.Errorf("%+v: %v", c, time.Duration(got))
		}
	}
}

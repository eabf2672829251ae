package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"spillway/internal/config"
	"spillway/internal/gateway"
	"spillway/internal/resilience/breaker"
	"spillway/internal/resilience/verdict"
)

// reference builds docs/configuration.md.
type reference struct {
	t    *testing.T
	b    strings.Builder
	docs map[string]string // package.Type.Field -> sentence
	seen map[string]bool   // paths that were written
}

// sample configures one thing of every kind, so that its defaults can be read off.
const sample = `
providers: {p: {protocols: [openai], base_url: "http://127.0.0.1:1/v1"}}
connections: [{id: c, provider: p, key: sk-sample-key}]
combos: [{name: smart, targets: [p/m]}]
keys: [{name: dev, hash: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}]
`

func noEnv(string) (string, bool) { return "", false }

func load(t *testing.T, doc string) *config.Config {
	t.Helper()
	c, err := config.Load(config.Source{Path: "sample.yaml", Bytes: []byte(doc), Env: noEnv})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func configurationPage(t *testing.T) string {
	r := &reference{t: t, docs: map[string]string{}, seen: map[string]bool{}}
	data, err := os.ReadFile("../internal/config/fielddocs.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &r.docs); err != nil {
		t.Fatal(err)
	}
	c, def := load(t, sample), config.Default()
	r.write(configurationHead)
	r.section("Top level", "", *def, "")
	r.section("limits", "limits.", def.Limits, "Bounds on size and work.")
	r.section("waits", "waits.", def.Waits, "Whether a request waits when every candidate is out for a short transient reason.")
	r.section("log", "log.", def.Log, "")
	r.section("cache, responses", "cache.", def.Cache, "")
	r.rows("responses.", def.Responses)
	r.section("providers", "providers.NAME.", *c.Providers["p"], "A mapping; the key is the provider's name. A name of the table in [providers.md](providers.md) is a preset: "+
		"`openai: {}` is enough. Defaults below are those without a preset.")
	r.section("connections", "connections[].", *c.Connections[0], "A list. Health is kept under the `id`.")
	r.rows("connections[].rate_limits.", c.Connections[0].RateLimits)
	r.section("combos", "combos[].", *c.Combos[0], "A list.")
	r.section("combos: targets", "combos[].targets[].", config.Target{Weight: 1}, "`provider/model` is short for `{target: provider/model}`.")
	r.section("combos: options", "combos[].options.", c.Combos[0].Options, "")
	r.rows("combos[].options.failover.", c.Combos[0].Options.Failover)
	r.section("keys", "keys[].", c.Keys[0], "A list of client keys. `spillway key new NAME` makes one.")
	r.section("rules that classify", "rules[].", verdict.Rule{}, "A rule without `from` and `to`. All conditions that are given must hold.")
	r.rows("rules[].header.", verdict.HeaderMatch{})
	r.section("rules that restate", "rules[].", verdict.Restatement{}, "A rule with `from` and `to` corrects a status that lies, before anything is classified.")
	t2 := load(t, "{}").Global()
	r.section("timeouts", "timeouts.", t2.Timeouts, "The clocks of one attempt. Providers and connections take `timeouts` too. [Time-outs and slow models](guide/timeouts.md) tells how they work together.")
	r.section("resilience", "resilience.", t2.Resilience, "Providers and connections take `resilience` too.")
	for _, room := range []struct {
		name string
		v    any
	}{{"breaker", t2.Breaker}, {"cooldown", t2.Cooldown}, {"lockout", t2.Lockout}, {"pacing", t2.Pacing}, {"health", t2.Health},
		{"outage", t2.Outage}, {"affinity", t2.Affinity}, {"streams", t2.Streams}} {
		r.section("resilience."+room.name, "resilience."+room.name+".", room.v, "")
		switch room.name {
		case "breaker":
			r.rows("resilience.breaker.provider_cooldown.", t2.Breaker.ProviderCooldown)
			r.rows("resilience.breaker.kinds.KIND.", breaker.KindPolicy{})
		case "pacing":
			r.rows("resilience.pacing.aimd.", t2.Pacing.Gate.AIMD)
			r.rows("resilience.pacing.queue.", t2.Pacing.Queue)
			r.rows("resilience.pacing.rates.", t2.Pacing.Rates)
		case "streams":
			r.rows("resilience.streams.watchdog.", t2.Streams.Watchdog)
		}
	}
	r.profiles()
	r.complete()
	return r.b.String()
}

const configurationHead = "# Configuration reference\n\n" +
	"<!-- Made from the code by go generate ./docs. Do not edit. -->\n\n" +
	"Every field of `spillway.yaml`, made from the code. `spillway check` checks a file; `spillway check --schema` prints the JSON Schema\n" +
	"([spillway.schema.json](spillway.schema.json)) for editors: put `# yaml-language-server: $schema=spillway.schema.json` into the first line.\n\n" +
	"- The file is `--config`, else `$SPILLWAY_CONFIG`, else `./spillway.yaml` when it exists.\n" +
	"- A *duration* is a Go duration with a unit: `500ms`, `30s`, `10m`, `24h`. A *size* takes `KiB`, `MiB`, `GiB`; a bare number is bytes. A *switch* is `true`, `false`, `on` or `off`. A *share* is a number from 0 to 1.\n" +
	"- `${NAME}` takes an environment variable, `${NAME:-default}` has a default. Inside `{...}` and `[...]` quote it: `{key: \"${A1_KEY}\"}`.\n" +
	"- Precedence of `listen`, `data`, `database`, `state`: flag, then environment (`SPILLWAY_LISTEN` ...), then file, then default.\n" +
	"- Precedence of `resilience` and `timeouts`: connection, then provider, then file, then environment, then the profile's number.\n" +
	"- Every field of `resilience`, `timeouts`, `limits` and `waits` has a variable: `resilience.breaker.open_max` is\n" +
	"  `SPILLWAY_RESILIENCE_BREAKER_OPEN_MAX`, `timeouts.idle` is `SPILLWAY_TIMEOUTS_IDLE`. Lists are separated by commas.\n" +
	"- Unknown fields are errors. All problems are reported at once, each with file, line and column.\n\n" +
	"Marks: **(later)** the field is read and checked, but this version does not use it yet. **(restart)** a reload does not change it.\n" +
	"**(global)** only the value at the top of the file counts, not a provider's or connection's.\n"

func (r *reference) write(s string) { r.b.WriteString(s) }

func (r *reference) section(title, prefix string, v any, intro string) {
	r.write("\n## " + title + "\n\n")
	if intro != "" {
		r.write(intro + "\n\n")
	}
	r.write("| field | default | kind | meaning |\n|---|---|---|---|\n")
	r.rows(prefix, v)
}

// rows writes the fields of a struct that hold a value; those that hold a section of their own only name it.
func (r *reference) rows(prefix string, value any) {
	v := reflect.ValueOf(value)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if strings.Contains(opts, "inline") {
			r.rows(prefix, v.Field(i).Interface())
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		full := prefix + name
		kind, isSection := kindOf(f.Type, f.Tag.Get("enum"))
		doc := r.docs[path.Base(v.Type().PkgPath())+"."+v.Type().Name()+"."+f.Name]
		if doc == "" {
			doc = own[full]
		}
		if doc == "" {
			r.t.Errorf("%s: %s.%s has no comment", full, v.Type(), f.Name)
		}
		doc = plain(doc, f.Name, v.Type())
		shown := "-"
		if need, ok := required[full]; ok {
			shown = need
		} else if !isSection {
			shown = code(show(v.Field(i)))
		}
		r.seen[full] = true
		fmt.Fprintf(&r.b, "| `%s` | %s | %s | %s%s |\n", full, shown, kind, escape(doc), r.marks(full, isSection))
	}
}

var camel = regexp.MustCompile(`\b[A-Z][a-z]+(?:[A-Z][a-zA-Z]*)+\b`)

// plain turns a Go comment into a sentence for people: names of fields become those of the file.
func plain(doc, goName string, t reflect.Type) string {
	if rest, ok := strings.CutPrefix(doc, goName+" "); ok && rest != "" {
		doc = strings.ToUpper(rest[:1]) + rest[1:]
	}
	doc = camel.ReplaceAllStringFunc(doc, func(word string) string {
		f, ok := t.FieldByName(word)
		if !ok {
			return word
		}
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		return code(name)
	})
	return strings.ReplaceAll(doc, "spec resilience.md section 1", "[outcomes.md](outcomes.md)")
}

func escape(s string) string { return strings.ReplaceAll(s, "|", "\\|") }

func (r *reference) marks(full string, isSection bool) string {
	out := ""
	if n := notes[full]; n != "" {
		out = " " + n
	}
	for p, instead := range later {
		if covers(p, full, isSection) {
			out += " **(later)**"
			if instead != "" {
				out += " " + instead + "."
			}
		}
	}
	for _, p := range atStart {
		if covers(p, full, isSection) {
			out += " **(restart)**"
		}
	}
	for _, p := range globalOnly {
		if covers(p, full, isSection) {
			out += " **(global)**"
		}
	}
	return out
}

// covers reports whether a mark for p belongs to the field full. A section is marked through its members.
func covers(p, full string, isSection bool) bool {
	head, all := strings.CutSuffix(p, "*")
	return !isSection && (p == full || all && strings.HasPrefix(full, head))
}

// kindOf names the kind of a field, and whether it is a section that has a table of its own.
func kindOf(t reflect.Type, enum string) (kind string, isSection bool) {
	if enum != "" {
		return "one of " + code(strings.ReplaceAll(enum, ",", " ")), false
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration", false
	case reflect.TypeFor[config.Size]():
		return "size", false
	case reflect.TypeFor[config.ResilienceOverlay](), reflect.TypeFor[config.TimeoutsOverlay]():
		return "section", true
	case reflect.TypeFor[gateway.Class]():
		return "one of `oauth apikey local`", false
	case reflect.TypeFor[gateway.Protocol]():
		return "one of `openai responses anthropic gemini`", false
	case reflect.TypeFor[gateway.Kind](), reflect.TypeFor[gateway.Scope](), reflect.TypeFor[gateway.Reason]():
		return "name, see [outcomes.md](outcomes.md)", false
	case reflect.TypeFor[verdict.StatusRange]():
		return "status", false
	}
	switch t.Kind() {
	case reflect.Struct:
		return "section", true
	case reflect.Map:
		of, nested := kindOf(t.Elem(), "")
		if nested {
			return "mapping", true
		}
		return "mapping to " + of, false
	case reflect.Slice:
		of, nested := kindOf(t.Elem(), "")
		if nested {
			return "list", true
		}
		return "list of " + of, false
	case reflect.Bool:
		return "switch", false
	case reflect.Int, reflect.Int64:
		return "integer", false
	case reflect.Float64:
		return "number", false
	}
	return "text", false
}

// show is a value as it would be written in the file; "" when there is none.
func show(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case gateway.Secret:
		return x.Reveal()
	case time.Duration:
		return short(x)
	case bool:
		return map[bool]string{true: "true", false: "false"}[x]
	case fmt.Stringer:
		if v.Kind() == reflect.Pointer && v.IsNil() {
			return ""
		}
		return x.String()
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return show(v.Elem())
	case reflect.Slice:
		var parts []string
		for i := range v.Len() {
			parts = append(parts, show(v.Index(i)))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Map:
		if v.Len() == 0 {
			return "{}"
		}
	}
	return fmt.Sprint(v.Interface())
}

// short writes a duration without the zero parts that Duration.String has.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func code(s string) string {
	if s == "" {
		return "-"
	}
	return "`" + s + "`"
}

// profiles lists every number that a class or a profile changes.
func (r *reference) profiles() {
	r.write("\n## What classes and profiles change\n\nThe defaults above are those of profile `recommended` for class `apikey`. " +
		"`resilience.profile` chooses another set of numbers:\nthose of the systems whose users move over. A profile is a start; every field can still be set.\n\n")
	type column struct{ profile, class string }
	columns := []column{{"recommended", "apikey"}, {"recommended", "oauth"}, {"recommended", "local"}, {"omniroute-oauth", "oauth"},
		{"omniroute-apikey", "apikey"}, {"omniroute-local", "local"}, {"polygateway", "apikey"}, {"autorouter", "apikey"}}
	values := make([]map[string]string, len(columns))
	var paths []string
	var head strings.Builder
	head.WriteString("| field |")
	var rule strings.Builder
	rule.WriteString("|---|")
	for i, c := range columns {
		class, err := gateway.ParseClass(c.class)
		if err != nil {
			r.t.Fatal(err)
		}
		cfg := load(r.t, fmt.Sprintf("providers: {p: {protocols: [openai], base_url: 'http://127.0.0.1:1/v1', class: %s, resilience: {profile: %s}}}", c.class, c.profile))
		values[i] = map[string]string{}
		for _, s := range cfg.ProviderSettings("p").Explain(class) {
			if s.Path == "resilience.profile" {
				continue
			}
			if i == 0 {
				paths = append(paths, s.Path)
			}
			text := fmt.Sprint(s.Value)
			if d, err := time.ParseDuration(text); err == nil && strings.ContainsAny(text, "smh") {
				text = short(d)
			}
			values[i][s.Path] = text
		}
		name := c.profile
		if c.profile == "recommended" {
			name += ", " + c.class
		}
		head.WriteString(" " + name + " |")
		rule.WriteString("---|")
	}
	r.write(head.String() + "\n" + rule.String() + "\n")
	for _, p := range paths {
		row, differs := "| `"+p+"` |", false
		if p == "resilience.breaker.kinds" {
			continue
		}
		for i := range columns {
			differs = differs || values[i][p] != values[0][p]
			row += " " + escape(values[i][p]) + " |"
		}
		if differs {
			r.write(row + "\n")
		}
	}
	r.write("\n`resilience.breaker.kinds`: `omniroute-*` opens for 60 s on `rate_limited` and for 1 h on `quota_exhausted` once their class is set to `count`;\n" +
		"`polygateway` opens at once on `auth_error`, `credits_exhausted` and `banned`; `autorouter` counts `slow`.\n")
}

// complete compares the tables with the JSON Schema: what one knows the other must know.
func (r *reference) complete() {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
		Defs       map[string]struct {
			Properties map[string]json.RawMessage `json:"properties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(config.Schema(), &s); err != nil {
		r.t.Fatal(err)
	}
	last := map[string]bool{}
	for p := range r.seen {
		last[p[strings.LastIndexByte(p, '.')+1:]] = true
	}
	for name := range s.Properties {
		if !r.seen[name] {
			r.t.Errorf("configuration.md does not have %s", name)
		}
	}
	for def, body := range s.Defs {
		for name := range body.Properties {
			if !last[name] {
				r.t.Errorf("configuration.md does not have %s of %s", name, def)
			}
		}
	}
	marked := slices.Concat(atStart, globalOnly, sortedKeys(notes), sortedKeys(own))
	for p := range later {
		marked = append(marked, p)
	}
	for _, p := range marked {
		if !slices.ContainsFunc(sortedKeys(r.seen), func(full string) bool { return covers(p, full, false) }) {
			r.t.Errorf("the mark %s is of no field", p)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

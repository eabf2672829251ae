package config

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"

	"spillway/internal/gateway"
)

// Source says where a configuration is read from. The zero Source reads the process's environment and ./spillway.yaml.
type Source struct {
	// Path of the file (--config). "" = SPILLWAY_CONFIG, else ./spillway.yaml when it exists.
	Path string
	// Bytes of the file, when it is not to be read from disk; Path then only names it in messages.
	Bytes []byte
	// Stored is a document of the same form (JSON is YAML) with what the management API created: its providers,
	// connections, combos, aliases, keys and rules are added, its resilience and timeouts are laid over the file's.
	Stored []byte
	// Env looks a variable up; nil = the process's environment.
	Env func(string) (string, bool)
	// Flags override everything else.
	Flags Flags
	// Strategies are the names of the strategies that exist; nil = the built-in list.
	Strategies []string
	// ReadFile reads the file and every key_file; nil = os.ReadFile.
	ReadFile func(string) ([]byte, error)
	// RunCommand runs a key_command; nil = sh -c. ctx ends after 10 s.
	RunCommand func(ctx context.Context, command string) ([]byte, error)
	// Context bounds the reading of keys; nil = context.Background().
	Context context.Context

	file string // that was read
}

// Flags are values of the command line; "" = not given.
type Flags struct{ Listen, Data, Database, State string }

func (s *Source) readFile(path string) ([]byte, error) {
	if s.ReadFile != nil {
		return s.ReadFile(path)
	}
	return os.ReadFile(path)
}

func (s *Source) runCommand(ctx context.Context, command string) ([]byte, error) {
	if s.RunCommand != nil {
		return s.RunCommand(ctx, command)
	}
	return runShell(ctx, command)
}

// loader carries one Load.
type loader struct {
	src      *Source
	ctx      context.Context
	cfg      *Config
	stored   *Config
	problems []Problem
	secrets  []string
	marks    map[string]Pos
}

// Load reads a configuration. All problems are reported at once, as a *[Problems]; nothing is half-loaded.
func Load(src Source) (*Config, error) {
	if src.Env == nil {
		src.Env = os.LookupEnv
	}
	l := &loader{src: &src, ctx: src.Context, cfg: Default(), marks: map[string]Pos{}}
	if l.ctx == nil {
		l.ctx = context.Background()
	}
	envTree := environment(src.Env)
	l.environmentInto(envTree)
	name, data, ok := l.open()
	if ok {
		l.read(name, data, l.cfg, "")
		l.cfg.File = name
	}
	sum := sha256.Sum256(slices.Concat(data, []byte{0}, src.Stored))
	l.cfg.Version = hex.EncodeToString(sum[:6])
	if src.Stored != nil {
		l.readStored()
	}
	l.overrides()
	l.automatic()
	l.imply()
	l.expandPresets()
	l.validate()
	l.loadKeys()
	env := layer{"environment", "environment", overlay{envTree.field("resilience"), "resilience"}, overlay{envTree.field("timeouts"), "timeouts"}}
	l.cfg.compileLayers(env, l.stored, func(p Problem) { l.problems = append(l.problems, p) })
	l.warnings()
	l.cfg.where = l.marks
	l.cfg.Warnings = l.scrubbed(l.cfg.Warnings)
	if len(l.problems) > 0 {
		return nil, &Problems{List: l.scrubbed(l.problems)}
	}
	return l.cfg, nil
}

func (l *loader) scrubbed(list []Problem) []Problem {
	for i := range list {
		list[i].Message = scrub(list[i].Message, l.secrets)
		list[i].Path = scrub(list[i].Path, l.secrets)
	}
	return sortProblems(list)
}

// open finds the file: flag, then variable, then ./spillway.yaml, which alone may be missing.
func (l *loader) open() (string, []byte, bool) {
	name, said := l.src.Path, "--config"
	if name == "" {
		name, said = l.variable("SPILLWAY_CONFIG"), "SPILLWAY_CONFIG"
	}
	if l.src.Bytes != nil {
		if name == "" {
			name = "spillway.yaml"
		}
		l.src.file = name
		return name, l.src.Bytes, true
	}
	if name == "" {
		name, said = "spillway.yaml", ""
	}
	name = expandHome(name, l.src.Env)
	data, err := l.src.readFile(name)
	switch {
	case err == nil:
		l.src.file = name
		return name, data, true
	case said == "" && errors.Is(err, fs.ErrNotExist):
		return "", nil, false
	case said == "":
		said = "the file"
	}
	reason := err
	if inner := errors.Unwrap(err); inner != nil {
		reason = inner
	}
	l.problems = append(l.problems, Problem{File: name, Message: fmt.Sprintf("cannot be read (named by %s): %s", said, reason)})
	return "", nil, false
}

func (l *loader) variable(name string) string {
	v, _ := l.src.Env(name)
	return v
}

// read parses, expands and decodes a document into cfg.
func (l *loader) read(name string, data []byte, cfg *Config, prefix string) {
	root, problems := parseTree(name, data)
	l.problems = append(l.problems, problems...)
	if root == nil {
		return
	}
	x := &expander{env: l.src.Env, seen: map[*node]bool{}}
	x.walk(root, "")
	d := newDecoder()
	d.marks, d.secrets = l.marks, x.secrets
	if prefix != "" {
		d.marks = map[string]Pos{}
	}
	d.decode(root, reflect.ValueOf(cfg).Elem(), "")
	l.problems = append(append(l.problems, x.problems...), d.problems...)
	l.secrets = append(l.secrets, d.secrets...)
	if prefix != "" {
		for path, pos := range d.marks {
			l.marks[prefix+path] = pos
		}
	}
}

// envShape is what SPILLWAY_ variables may set below the file, next to listen, data, database and state.
type envShape struct {
	Resilience Resilience `yaml:"resilience"`
	Timeouts   Timeouts   `yaml:"timeouts"`
	Limits     Limits     `yaml:"limits"`
	Waits      Waits      `yaml:"waits"`
}

// environmentInto checks the variables and applies those that are not layered.
func (l *loader) environmentInto(tree *node) {
	shape := envShape{Limits: l.cfg.Limits, Waits: l.cfg.Waits}
	b := builtin("recommended", gateway.APIKey)
	shape.Resilience, shape.Timeouts = b.Resilience, b.Timeouts
	d := newDecoder()
	d.decode(tree, reflect.ValueOf(&shape).Elem(), "")
	l.problems = append(l.problems, d.problems...)
	l.cfg.Limits, l.cfg.Waits = shape.Limits, shape.Waits
}

// overrides applies flag > environment > file to the four settings of the process.
func (l *loader) overrides() {
	c, f := l.cfg, l.src.Flags
	listen, database, state := c.Listen, c.Database.Reveal(), c.State.Reveal()
	for _, o := range []struct {
		to         *string
		name, flag string
		env        string
	}{{&listen, "listen", f.Listen, "SPILLWAY_LISTEN"}, {&c.Data, "data", f.Data, "SPILLWAY_DATA"},
		{&database, "database", f.Database, "SPILLWAY_DATABASE"}, {&state, "state", f.State, "SPILLWAY_STATE"}} {
		if v := l.variable(o.env); v != "" {
			*o.to, l.marks[o.name] = v, Pos{File: o.env}
		}
		if o.flag != "" {
			*o.to, l.marks[o.name] = o.flag, Pos{File: "--" + o.name}
		}
	}
	c.Listen, c.Database, c.State = listen, gateway.Secret(database), gateway.Secret(state)
	c.Data = expandHome(c.Data, l.src.Env)
	if !c.SQLite() {
		l.secrets = append(l.secrets, database)
	}
	if !c.Memory() {
		l.secrets = append(l.secrets, state)
	}
}

// at notes a problem at the place of a path, or of the nearest thing around it that is written. What was already found
// wrong, or holds something that was, is not reported a second time.
func (l *loader) at(path, format string, args ...any) {
	for _, p := range l.problems {
		if p.Path == path || strings.HasPrefix(p.Path, path+"[") {
			return
		}
	}
	l.problems = append(l.problems, l.placed(path, fmt.Sprintf(format, args...)))
}

func (l *loader) warn(path, format string, args ...any) {
	l.cfg.Warnings = append(l.cfg.Warnings, l.placed(path, fmt.Sprintf(format, args...)))
}

func (l *loader) placed(path, msg string) Problem {
	for p := path; ; {
		if pos, ok := l.marks[p]; ok {
			return Problem{pos.File, pos.Line, pos.Col, path, msg}
		}
		cut := max(lastByte(p, '.'), lastByte(p, '['))
		if cut < 0 {
			return Problem{File: l.cfg.File, Path: path, Message: msg}
		}
		p = p[:cut]
	}
}

func lastByte(s string, c byte) int {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == c {
			return i
		}
	}
	return -1
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

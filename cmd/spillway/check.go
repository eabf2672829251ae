package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"spillway/internal/catalog"
	"spillway/internal/config"
	"spillway/internal/route/strategy"
)

type checkCmd struct {
	Schema bool `help:"Print the JSON Schema of the file, for editors, and exit."`

	Rule   bool       `help:"Dry run: say what the rules make of one upstream answer, and why. The other flags below describe that answer."`
	Answer ruleAnswer `embed:"" group:"With --rule:"`
}

// Help is the end of check --help.
func (*checkCmd) Help() string { return ruleHelp }

// Run reads the configuration as serve would, prints every problem with its place, and what the file means. Exit code 2
// when there is a problem.
func (k *checkCmd) Run(ctx context.Context, c *cli, o *out) error {
	if k.Schema {
		_, err := o.Write(config.Schema())
		return err
	}
	if !k.Rule && k.Answer.given() {
		return misuse("the flags that describe an upstream answer need --rule")
	}
	cfg, err := config.Load(config.Source{Path: c.Config, Strategies: strategy.Names(), Context: ctx})
	if err != nil {
		return err
	}
	snap, err := catalog.Compile(cfg)
	if err != nil {
		return err
	}
	if k.Rule {
		return k.Answer.dryRun(snap, o)
	}
	from := cfg.File
	switch {
	case cfg.LabOnly:
		from = "nothing (no file, no well-known variable): serve would run on the built-in lab"
	case cfg.Automatic:
		from = "well-known variables of the environment (no file)"
	}
	fmt.Fprintf(o, "configuration: %s\nlisten:        %s\n\n", from, cfg.Listen)
	t := tabwriter.NewWriter(o, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "CONNECTION\tPROVIDER\tPROTOCOLS\tBASE URL\tACCOUNT")
	for _, conn := range snap.AllConnections() {
		var protocols []string
		for _, p := range conn.Provider.Protocols {
			protocols = append(protocols, p.String())
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", conn.ID, conn.Provider.ID, strings.Join(protocols, ","), conn.Provider.BaseURL, conn.Account)
	}
	if combos := snap.Combos(); len(combos) > 0 {
		if err := t.Flush(); err != nil { // the next table has columns of its own
			return err
		}
		fmt.Fprintln(t, "\nCOMBO\tSTRATEGY\tTARGETS")
		for _, combo := range combos {
			var targets []string
			for _, target := range combo.Targets {
				targets = append(targets, target.String())
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", combo.Name, combo.Strategy, strings.Join(targets, " > "))
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintln(o, "warning:", w)
	}
	fmt.Fprintln(o, "\nno problem found")
	return nil
}

type keyCmd struct {
	New  keyNewCmd  `cmd:"" help:"Make a client key and print it once, with the lines for the configuration file."`
	Hash keyHashCmd `cmd:"" help:"Print the hash of a key read from standard input, for keys[].hash."`
	List keyListCmd `cmd:"" help:"List the client keys of the configuration: names, scopes, limits."`
}

type keyNewCmd struct {
	Name   string   `arg:"" help:"Name of the key in logs and usage."`
	Scopes []string `help:"What it may do: inference, diagnostics, management, lease:exclusive." default:"inference" enum:"inference,diagnostics,management,lease:exclusive"`
}

// Run makes a key. Only its hash is for the file; the key itself is printed once and kept nowhere.
func (k *keyNewCmd) Run(o *out) error {
	plain, hash := newKey()
	fmt.Fprintf(o.err, "The key is shown once; give it to the client:\n\n")
	fmt.Fprintf(o, "%s\n", plain.Reveal())
	fmt.Fprintf(o.err, "\nAdd to spillway.yaml (a running gateway takes it over by itself):\n\nkeys:\n  - {name: %q, hash: %q, scopes: [%s]}\n",
		k.Name, hash, strings.Join(k.Scopes, ", "))
	return nil
}

type keyHashCmd struct{}

// Run prints the stored form of a key.
func (keyHashCmd) Run(o *out) error {
	line, err := readLine()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(o, hashKey(line))
	return err
}

type keyListCmd struct{}

// Run lists the keys that the file declares.
func (keyListCmd) Run(ctx context.Context, c *cli, o *out) error {
	cfg, err := config.Load(config.Source{Path: c.Config, Strategies: strategy.Names(), Context: ctx})
	if err != nil {
		return err
	}
	if cfg.Keyless() {
		fmt.Fprintln(o, "no client key is configured: only clients on this machine are served, without a key")
		return nil
	}
	t := tabwriter.NewWriter(o, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSCOPES\tMODELS\tCONNECTIONS\tRPM")
	for _, k := range cfg.Keys {
		conns := make([]string, 0, len(k.AllowedConnections))
		for _, id := range k.AllowedConnections {
			conns = append(conns, string(id))
		}
		slices.Sort(conns)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\n", k.Name, strings.Join(k.Scopes, ","), all(k.AllowedModels), all(conns), k.RPM)
	}
	return t.Flush()
}

func all(list []string) string {
	if len(list) == 0 {
		return "all"
	}
	return strings.Join(list, ",")
}

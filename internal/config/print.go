package config

import "fmt"

// The fmt package reaches into structs behind the back of [gateway.Secret] when a verb does not fit, as in %s of a
// pointer to a struct. So these types print themselves, whatever the verb.

// Format implements fmt.Formatter: a summary without values.
func (c Config) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "config(%s: %d providers, %d connections, %d combos, %d keys)", c.File, len(c.Providers), len(c.Connections), len(c.Combos), len(c.Keys))
}

// Format implements fmt.Formatter: name and address.
func (p Provider) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "provider(%s %v %s)", string(p.ID), p.Protocols, p.BaseURL)
}

// Format implements fmt.Formatter: name and provider.
func (c Connection) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "connection(%s of %s)", string(c.ID), string(c.Provider))
}

package config

import (
	"regexp"

	"spillway/internal/gateway"
)

// organization is the form of an id that can stand in a path.
var organization = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// checkWalls checks what a connection wants at usage walls: only providers that speak Anthropic's protocol are known to
// have a way past one, and a reset is claimed by organization.
func (l *loader) checkWalls(path string, c *Connection) {
	for _, x := range []struct {
		name string
		on   bool
	}{{"low_priority_mode", c.LowPriorityMode}, {"auto_limit_reset", c.AutoLimitReset}} {
		if p := l.cfg.Providers[c.Provider]; x.on && p != nil && !(&gateway.Provider{Protocols: p.Protocols}).Speaks(gateway.Anthropic) {
			l.at(path+"."+x.name, "works with subscriptions at providers that speak the protocol anthropic, and %s does not", quote(string(c.Provider)))
		}
	}
	if c.AutoLimitReset && !organization.MatchString(c.Meta["organization"]) {
		l.at(path+".auto_limit_reset", "needs the id of the organization that claims: meta: {organization: ...}")
	}
}

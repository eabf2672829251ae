package config

import "spillway/internal/gateway"

// QuotaFamily is the name of the quota that a model shares with others; "" when it has its own. Of several patterns that
// match the longest decides, then the name that comes first.
func (p *Provider) QuotaFamily(m gateway.ModelID) string {
	var name string
	best := 0
	for _, family := range sortedKeys(p.QuotaFamilies) {
		for _, pattern := range p.QuotaFamilies[family] {
			if len(pattern) > best && Glob(pattern, string(m)) {
				name, best = family, len(pattern)
			}
		}
	}
	return name
}

// checkFamilies reports families without a name or with a pattern that matches nothing, and those that a 429 passes by.
func (l *loader) checkFamilies(path string, p *Provider) {
	if len(p.QuotaFamilies) > 0 && !p.PerModelQuota {
		l.warn(path, "does nothing for a 429 and a quota, which rest the whole account; set per_model_quota: true")
	}
	for _, name := range sortedKeys(p.QuotaFamilies) {
		if name == "" {
			l.at(path, "a family needs a name")
		}
		if len(p.QuotaFamilies[name]) == 0 {
			l.at(join(path, name), "lists no model; write patterns, as in [\"gpt-5*\"]")
		}
		for _, pattern := range p.QuotaFamilies[name] {
			if pattern == "" {
				l.at(join(path, name), "an empty pattern matches no model")
			}
		}
	}
}

package rate

// Config holds `pacing.rates`.
type Config struct {
	// Whether limits are learned from the upstream's rate-limit headers. They are believed for 24 h at most and never
	// loosen a declared limit. Default true.
	Learn bool `yaml:"learn"`
	// Whether an account whose headers say that nothing is left is left alone until their reset, at most 15 min; then one
	// request finds out. Needs learn. Default true.
	Preflight bool `yaml:"preflight"`
}

// Default is the profile recommended.
func Default() Config { return Config{Learn: true, Preflight: true} }

// Preset returns the settings of a profile by name; ok is false for an unknown one.
func Preset(name string) (c Config, ok bool) {
	switch name {
	case "recommended":
		return Default(), true
	case "omniroute-oauth", "omniroute-apikey", "omniroute-local":
		return Config{Learn: true}, true
	case "polygateway", "autorouter":
		return Config{}, true
	}
	return Config{}, false
}

// Validate reports every problem, each starting with the field's name. Every combination of the two switches is sound.
func (Config) Validate() error { return nil }

package gateway

import "log/slog"

// Secret is a string that refuses to be printed, logged or marshalled. Reveal is the only way to its value, so a
// search for that word finds every place where a secret leaves memory.
type Secret string

const redacted = "[redacted]"

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// Set reports whether there is a secret at all.
func (s Secret) Set() bool { return s != "" }

func (s Secret) String() string               { return redacted }
func (s Secret) GoString() string             { return redacted }
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

package gateway

import "fmt"

// Protocol is a wire protocol that clients and upstreams speak.
type Protocol uint8

// The four wire protocols. The zero value is OpenAI chat completions.
const (
	OpenAI    Protocol = iota // OpenAI chat completions
	Responses                 // OpenAI responses
	Anthropic                 // Anthropic messages
	Gemini                    // Gemini generateContent
	NumProtocols
)

var protocolNames = [NumProtocols]string{"openai", "responses", "anthropic", "gemini"}

func (p Protocol) String() string {
	if p < NumProtocols {
		return protocolNames[p]
	}
	return fmt.Sprintf("protocol(%d)", uint8(p))
}

// ParseProtocol reads the name used in configuration files.
func ParseProtocol(s string) (Protocol, error) {
	for i, n := range protocolNames {
		if n == s {
			return Protocol(i), nil
		}
	}
	return 0, fmt.Errorf("unknown protocol %q: use openai, responses, anthropic or gemini", s)
}

// MarshalText implements encoding.TextMarshaler.
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Protocol) UnmarshalText(b []byte) (err error) {
	*p, err = ParseProtocol(string(b))
	return err
}

// Class is the kind of credential a provider takes; it chooses the default resilience profile.
type Class uint8

// The three classes. The zero value is APIKey, the common case.
const (
	APIKey Class = iota
	OAuth
	Local
	numClasses
)

var classNames = [numClasses]string{"apikey", "oauth", "local"}

func (c Class) String() string {
	if c < numClasses {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// ParseClass reads the name used in configuration files.
func ParseClass(s string) (Class, error) {
	for i, n := range classNames {
		if n == s {
			return Class(i), nil
		}
	}
	return 0, fmt.Errorf("unknown class %q: use oauth, apikey or local", s)
}

// MarshalText implements encoding.TextMarshaler.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Class) UnmarshalText(b []byte) (err error) { *c, err = ParseClass(string(b)); return err }

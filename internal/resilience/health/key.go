package health

import (
	"strings"

	"spillway/internal/gateway"
	memory "spillway/internal/state"
)

// key is what everything here is kept by.
type key struct {
	identity string
	model    gateway.ModelID
}

func (k key) String() string { return k.identity + " " + string(k.model) }

// clone copies the names: the model may be a part of a request's body, which a key must not keep alive.
func (k key) clone() key {
	return key{identity: strings.Clone(k.identity), model: gateway.ModelID(strings.Clone(string(k.model)))}
}

func keyOf(c gateway.Candidate) key {
	return key{identity: memory.Identity(c.Connection), model: c.Model}
}

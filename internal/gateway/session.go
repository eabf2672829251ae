package gateway

// Session is what a request's body says about the conversation that it belongs to.
type Session struct {
	Field  string // value of the most telling session field; "" = none
	Prefix []Span // the texts that every turn of a conversation begins with: system, tools, first user turn
	User   bool   // a user turn is among them; without one the prefix names no conversation
	Begins bool   // no answer of a model is in the body: the first turn of a conversation
}

// Ref is a reference to an object that is stored at one account of an upstream.
type Ref struct {
	Param string // the field that refers to it
	ID    string
}

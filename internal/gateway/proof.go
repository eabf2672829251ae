package gateway

// Proof is what is known about an answer once it has ended, for those who want to use it again. It says nothing about the
// client: an answer is whole when its upstream has ended it, whether or not it was read.
type Proof struct {
	Kind    Kind // of the attempt that gave it
	Status  int  // as the client got it
	Content bool // there is something in it
	Refused bool // it was stopped by a content filter
	Length  bool // it was stopped by a token limit
	Mended  bool // it is not what one upstream said: events were left out, or several attempts made it
	Unsure  bool // its end leaves a doubt: for an unknown reason, or the connection broke right behind it
}

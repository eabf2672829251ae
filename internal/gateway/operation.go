package gateway

// Operation is what a client asks an upstream to do. Together with the protocol it decides the upstream's path and what
// counts as an answer.
type Operation uint8

// The operations. The zero value is Generate, the call that every protocol is about.
const (
	Generate       Operation = iota // chat completions, responses, messages, generateContent
	Complete                        // OpenAI's legacy completions: a prompt instead of messages
	CountTokens                     // how many tokens a prompt has
	Embed                           // vectors for texts
	BatchEmbed                      // Gemini's batchEmbedContents
	Moderate                        // moderations
	Rerank                          // documents ordered by a query
	MakeImage                       // images/generations
	EditImage                       // images/edits
	VaryImage                       // images/variations
	Speak                           // audio/speech: the answer is sound
	Transcribe                      // audio/transcriptions
	TranslateAudio                  // audio/translations
	Compact                         // responses/compact: a conversation made shorter
	NumOperations
)

var operationNames = [NumOperations]string{"generate", "complete", "count_tokens", "embed", "batch_embed", "moderate", "rerank",
	"make_image", "edit_image", "vary_image", "speak", "transcribe", "translate_audio", "compact"}

func (o Operation) String() string { return enumName(operationNames[:], uint8(o), "operation") }

// MarshalText implements encoding.TextMarshaler.
func (o Operation) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *Operation) UnmarshalText(b []byte) error {
	i, err := enumParse(operationNames[:], string(b), "operation")
	*o = Operation(i)
	return err
}

// Completes reports whether the answer is a completion: it has content, an end that can be told from a cut, and can be
// streamed. The answers of all other operations are passed on whole, and only errors are looked for in them.
func (o Operation) Completes() bool { return o == Generate || o == Complete }

// Converses reports whether the request carries a conversation, which belongs to a session and to what its accounts store.
func (o Operation) Converses() bool { return o.Completes() || o == Compact }

// JSON reports whether the answer is a JSON text whatever the request says. The others may be sound, subtitles or a
// stream of the operation's own.
func (o Operation) JSON() bool {
	switch o {
	case CountTokens, Embed, BatchEmbed, Moderate, Rerank, Compact:
		return true
	}
	return o.Completes()
}

// Form reports whether the request may be a form with files (multipart/form-data) instead of JSON.
func (o Operation) Form() bool {
	switch o {
	case EditImage, VaryImage, Transcribe, TranslateAudio:
		return true
	}
	return false
}

// Unit names what a room learns about a model under an operation of a protocol: a model that cannot embed is not out for
// chat, and a provider may lack the call in one protocol only.
func (o Operation) Unit(m ModelID, p Protocol) ModelID {
	if o == Generate {
		return m
	}
	return m + ModelID(" ("+p.String()+" "+o.String()+")")
}

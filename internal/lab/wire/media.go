package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"time"
)

// others are the ends of the OpenAI API's paths beside chat, with what they ask for.
var others = map[string]Op{
	"/completions": Complete, "/embeddings": Embed, "/moderations": Moderate, "/rerank": Rerank, "/images/generations": Image,
	"/images/edits": Image, "/images/variations": Image, "/audio/speech": Speak, "/audio/transcriptions": Transcribe,
	"/audio/translations": Transcribe,
}

// decodeOther reads the calls beside chat and embeddings.
func (c *Call) decodeOther(body []byte) error {
	if c.Form != "" {
		return c.decodeForm(body)
	}
	var in struct {
		Model     string          `json:"model"`
		Stream    bool            `json:"stream"`
		Prompt    json.RawMessage `json:"prompt"`
		Input     json.RawMessage `json:"input"`
		Query     string          `json:"query"`
		Documents []any           `json:"documents"`
		MaxTokens int             `json:"max_tokens"`
		Options   struct {
			IncludeUsage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return err
	}
	c.Model, c.MaxTokens, c.IncludeUsage = in.Model, in.MaxTokens, in.Options.IncludeUsage
	c.Stream = in.Stream && c.Op == Complete
	if c.Op == Moderate && c.Model == "" {
		c.Model = "omni-moderation-latest"
	}
	c.Prompt, _ = contentText(in.Prompt)
	c.Inputs = make([]string, max(len(in.Documents), 1))
	var list []any
	if json.Unmarshal(in.Input, &list) == nil {
		c.Inputs = make([]string, len(list))
	}
	if c.Op == Rerank && (in.Query == "" || len(in.Documents) == 0) {
		return errors.New("query and documents are required")
	}
	return nil
}

// decodeForm reads a form with files; every file must be there in full.
func (c *Call) decodeForm(body []byte) error {
	_, params, err := mime.ParseMediaType(c.Form)
	if err != nil {
		return err
	}
	files := 0
	for r := multipart.NewReader(bytes.NewReader(body), params["boundary"]); ; {
		part, err := r.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(part)
		if err != nil {
			return err
		}
		switch {
		case part.FileName() != "":
			files++
		case part.FormName() == "model":
			c.Model = string(data)
		}
	}
	if files == 0 {
		return errors.New("a file is required")
	}
	return nil
}

// dot is an image of one pixel.
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg=="

func (c *Call) result(now time.Time) object {
	switch c.Op {
	case Moderate:
		list := []any{}
		for range c.Inputs {
			list = append(list, object{"flagged": false, "categories": object{"violence": false}, "category_scores": object{"violence": 0.01}})
		}
		return object{"id": "modr-lab", "model": c.Model, "results": list}
	case Rerank:
		list := []any{}
		for i := range c.Inputs {
			list = append(list, object{"index": i, "relevance_score": 1 / float64(i+1)})
		}
		return object{"id": "rerank-lab", "model": c.Model, "results": list, "usage": object{"total_tokens": c.InputTokens}}
	case Image:
		return object{"created": now.Unix(), "data": []any{object{"b64_json": dot}},
			"usage": object{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}
	}
	return object{"text": "the lab hears nothing but a tone"}
}

// sound is a tenth of a second of a tone, as WAV.
func sound() []byte {
	const rate, n = 8000, 800
	var b bytes.Buffer
	b.WriteString("RIFF")
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) } // a buffer takes everything
	put(uint32(36 + 2*n))
	b.WriteString("WAVEfmt ")
	for _, v := range []any{uint32(16), uint16(1), uint16(1), uint32(rate), uint32(2 * rate), uint16(2), uint16(16)} {
		put(v)
	}
	b.WriteString("data")
	put(uint32(2 * n))
	for i := range n {
		put(int16(8000 * math.Sin(2*math.Pi*440*float64(i)/rate)))
	}
	return b.Bytes()
}

// completions is OpenAI's legacy completions: chat chunks that carry a text instead of a message.
type completions struct{ chat }

// choice writes the body or chunk up to its usage.
func (completions) choice(w *writer, a *Answer, text, finish string) {
	w.list("choices", func() {
		w.object("", func() {
			w.textOrNull("finish_reason", finish)
			w.number("index", 0)
			w.null("logprobs")
			w.text("text", text)
		})
	})
	chat{}.base(w, a, "cmpl-", "text_completion")
}

func (completions) open(*Answer) {}

func (c completions) token(a *Answer, text string, _ bool) {
	a.event("", func(w *writer) { c.choice(w, a, text, "") })
}

func (c completions) end(a *Answer, f Finish, u Usage) {
	a.event("", func(w *writer) { c.choice(w, a, "", chatFinish[f]) })
	if a.Call.IncludeUsage {
		c.last(a, u, "cmpl-", "text_completion")
	}
}

func (c completions) whole(w *writer, a *Answer, text string, f Finish, u Usage) {
	c.choice(w, a, text, chatFinish[f])
	chatUsage(w, u)
}

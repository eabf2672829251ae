package wire

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"
	"time"

	"spillway/internal/gateway"
)

// dimensions of the embeddings.
const dimensions = 8

// Other answers the calls that are no completion: token counts, embeddings, lists of models, images, sound.
func Other(c *Call, names []string, now time.Time) []byte {
	switch c.Op {
	case CountTokens:
		if c.Protocol == gateway.Gemini {
			return encode(object{"totalTokens": c.InputTokens})
		}
		return encode(object{"input_tokens": c.InputTokens})
	case Embed, EmbedBatch:
		return encode(embeddings(c))
	case GetModel:
		return encode(modelEntry(c.Protocol, c.Model, now))
	case Moderate, Rerank, Image, Transcribe:
		return encode(c.result(now))
	case Speak:
		return sound()
	case Compact:
		return encode(compacted(c, now))
	}
	list := []any{}
	for _, n := range names {
		list = append(list, modelEntry(c.Protocol, n, now))
	}
	switch c.Protocol {
	case gateway.Gemini:
		return encode(object{"models": list})
	case gateway.Anthropic:
		return encode(object{"data": list, "has_more": false, "first_id": first(names), "last_id": first(names[max(0, len(names)-1):])})
	}
	return encode(object{"object": "list", "data": list})
}

func first(names []string) any {
	if len(names) == 0 {
		return nil
	}
	return names[0]
}

func modelEntry(p gateway.Protocol, name string, now time.Time) object {
	switch p {
	case gateway.Gemini:
		return object{"name": "models/" + name, "displayName": name, "version": "001", "inputTokenLimit": 1 << 20, "outputTokenLimit": 1 << 16,
			"supportedGenerationMethods": []string{"generateContent", "countTokens", "embedContent"}}
	case gateway.Anthropic:
		return object{"id": name, "type": "model", "display_name": name, "created_at": now.UTC().Format(time.RFC3339)}
	}
	return object{"id": name, "object": "model", "created": now.Unix(), "owned_by": "lab"}
}

func embeddings(c *Call) object {
	list := []any{}
	tokens := 0
	for i, in := range c.Inputs {
		v := vector(in)
		tokens += len(in)/4 + 1
		switch {
		case c.Protocol == gateway.Gemini:
			list = append(list, object{"values": v})
		case c.Base64:
			list = append(list, object{"object": "embedding", "index": i, "embedding": packed(v)})
		default:
			list = append(list, object{"object": "embedding", "index": i, "embedding": v})
		}
	}
	switch {
	case c.Op == EmbedBatch:
		return object{"embeddings": list}
	case c.Protocol == gateway.Gemini:
		return object{"embedding": list[0]}
	}
	return object{"object": "list", "data": list, "model": c.Model, "usage": object{"prompt_tokens": tokens, "total_tokens": tokens}}
}

// vector is a unit vector that depends on the text alone.
func vector(text string) []float32 {
	out := make([]float32, dimensions)
	sum := 0.0
	for i := range out {
		h := fnv.New32a()
		h.Write([]byte{byte(i)})
		h.Write([]byte(text))
		x := float64(h.Sum32())/math.MaxUint32 - 0.5
		out[i] = float32(x)
		sum += x * x
	}
	for i := range out {
		out[i] /= float32(math.Sqrt(sum))
	}
	return out
}

func packed(v []float32) string {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}

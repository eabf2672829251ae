// Reduce makes schema.json out of OpenAI's OpenAPI document: the schemas of what the gateway's tests validate, and all
// that these refer to, as one JSON Schema (2020-12). See README.md.
//
//	go run internal/app/testdata/openai/reduce.go openapi.json > schema.json
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

type object = map[string]any

// roots are the schemas that the tests name.
var roots = []string{
	"CreateChatCompletionResponse", "CreateChatCompletionStreamResponse", "Response", "ResponseStreamEvent",
	"ResponseItemList", "CompactResource", "CreateEmbeddingResponse", "ListModelsResponse", "Model", "ErrorResponse",
}

// dropped says nothing about validity, or says it in a way of OpenAPI's own that dispatch has taken over. Formats are
// comments in JSON Schema.
var dropped = []string{"description", "example", "examples", "title", "default", "deprecated", "discriminator", "nullable", "format",
	"$recursiveAnchor"}

func main() {
	if len(os.Args) != 2 {
		fail("usage: go run reduce.go openapi.json > schema.json")
	}
	raw, err := os.ReadFile(os.Args[1])
	if err != nil {
		fail(err)
	}
	var doc struct {
		Info struct {
			Version string `json:"version"`
		} `json:"info"`
		Components struct {
			Schemas object `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		fail(err)
	}
	r := reducer{from: doc.Components.Schemas, to: object{}}
	r.correct()
	for _, name := range roots {
		r.take(name)
	}
	out, err := json.Marshal(object{
		"$schema":  "https://json-schema.org/draft/2020-12/schema",
		"$comment": "Reduced from the OpenAI OpenAPI document, version " + doc.Info.Version + " (MIT licence, see NOTICE). Made by reduce.go.",
		"$defs":    r.to,
	})
	if err != nil {
		fail(err)
	}
	// One definition per line: the file is read by programs, its changes by people.
	s := string(out)
	for _, name := range slices.Sorted(maps.Keys(r.to)) {
		s = strings.Replace(s, fmt.Sprintf("%q:{", name), fmt.Sprintf("\n%q:{", name), 1)
	}
	fmt.Println(s)
}

func fail(what any) {
	fmt.Fprintln(os.Stderr, what)
	os.Exit(1)
}

type reducer struct{ from, to object }

// correct mends where the document is at odds with its own examples or with what the service sends; README.md has the
// reasons.
func (r reducer) correct() {
	member := func(schema object, name string) object { return schema["properties"].(object)[name].(object) }
	model := r.from["ModelResponseProperties"].(object)
	for _, name := range []string{"user", "safety_identifier", "prompt_cache_key"} {
		member(model, name)["nullable"] = true
	}
	response := r.from["Response"].(object)["allOf"].([]any)
	member(response[len(response)-1].(object), "usage")["nullable"] = true
	r.from["ResponseErrorCode"] = object{"type": "string"}
	vector := member(r.from["Embedding"].(object), "embedding")
	r.from["Embedding"].(object)["properties"].(object)["embedding"] = object{"anyOf": []any{vector, object{"type": "string"}}}
}

// take puts a schema and all that it refers to into the result.
func (r reducer) take(name string) {
	if r.to[name] != nil {
		return
	}
	s, ok := r.from[name].(object)
	if !ok {
		fail("the document has no schema " + name)
	}
	r.to[name] = object{} // what refers to itself finds itself taken
	r.to[name] = r.schema(s, name)
}

// schema rewrites one schema; owner is the definition that it is part of.
func (r reducer) schema(in object, owner string) object {
	out := object{}
	for k, v := range in {
		switch {
		case slices.Contains(dropped, k) || strings.HasPrefix(k, "x-"):
		case k == "$ref":
			name := v.(string)[strings.LastIndexByte(v.(string), '/')+1:]
			r.take(name)
			out[k] = "#/$defs/" + name
		case k == "$recursiveRef":
			out["$ref"] = "#/$defs/" + owner
		case k == "properties":
			members := object{}
			for name, s := range v.(object) {
				members[name] = r.schema(s.(object), owner)
			}
			out[k] = members
		case k == "anyOf" || k == "oneOf":
			out["anyOf"] = r.list(v, owner)
		case k == "allOf":
			out[k] = r.list(v, owner)
		case k == "items", k == "additionalProperties", k == "propertyNames":
			out[k] = v
			if s, ok := v.(object); ok {
				out[k] = r.schema(s, owner)
			}
		default:
			out[k] = v
		}
	}
	if cases := r.dispatch(out["anyOf"]); cases != nil {
		delete(out, "anyOf")
		out["required"], out["allOf"] = []any{"type"}, cases
	}
	if in["nullable"] == true {
		return object{"anyOf": []any{out, object{"type": "null"}}}
	}
	return out
}

func (r reducer) list(in any, owner string) (out []any) {
	for _, s := range in.([]any) {
		out = append(out, r.schema(s.(object), owner))
	}
	return out
}

// dispatch turns a choice between schemas that each name their `type` into a chain of conditions: the type selects,
// so a fault is told where it is and a schema of another type cannot let it pass. It returns nil for other choices.
func (r reducer) dispatch(choice any) []any {
	list, _ := choice.([]any)
	by, order := map[string][]any{}, []any{}
	for _, s := range list {
		ref, _ := s.(object)["$ref"].(string)
		kinds := r.kinds(ref[strings.LastIndexByte(ref, '/')+1:])
		if kinds == nil {
			return nil
		}
		for _, k := range kinds {
			if by[k.(string)] == nil {
				order = append(order, k)
			}
			by[k.(string)] = append(by[k.(string)], s)
		}
	}
	if len(order) < 2 {
		return nil
	}
	out := []any{object{"properties": object{"type": object{"enum": order}}}}
	for _, k := range order {
		then := by[k.(string)][0].(object)
		if len(by[k.(string)]) > 1 {
			then = object{"anyOf": by[k.(string)]}
		}
		out = append(out, object{"if": object{"properties": object{"type": object{"const": k}}}, "then": then})
	}
	return out
}

// kinds are the values of `type` that a schema demands; nil = it demands none.
func (r reducer) kinds(name string) []any {
	s, _ := r.from[name].(object)
	return kindsOf(s, r.from)
}

func kindsOf(s object, all object) []any {
	if ref, ok := s["$ref"].(string); ok {
		s, _ = all[ref[strings.LastIndexByte(ref, '/')+1:]].(object)
	}
	parts, _ := s["allOf"].([]any)
	for _, p := range parts {
		if k := kindsOf(p.(object), all); k != nil {
			return k
		}
	}
	members, _ := s["properties"].(object)
	kind, _ := members["type"].(object)
	list, _ := kind["enum"].([]any)
	return list
}

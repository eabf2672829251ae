package verdict

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// wire is what an error body says, whatever the protocol or vendor: one reading for OpenAI, Anthropic, Gemini (objects
// and arrays), Responses, OpenRouter, Bedrock, FastAPI, Ollama, MiniMax, DashScope, Cloudflare and their relatives.
type wire struct {
	code, typ, param, message string

	codes   []string         // every machine-readable name found, in lower case
	status  int              // HTTP status that stands inside the body, 0 = none
	objects []map[string]any // objects in which a hint may stand
	headers http.Header      // response headers quoted inside the body (OpenRouter)
	json    bool             // the body is a JSON object or a list of them
	html    bool
	found   bool // the body says that something is wrong
}

const (
	maxText  = 4096 // characters of text that rules see
	maxDepth = 6    // nested error objects that are followed
)

func readBody(body []byte) wire {
	var w wire
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	if bytes.HasPrefix(body, []byte("data:")) || bytes.HasPrefix(body, []byte("event:")) {
		body = firstData(body)
	}
	if len(body) == 0 {
		return w
	}
	if body[0] == '{' || body[0] == '[' {
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		var root any
		if dec.Decode(&root) == nil {
			w.json = true
			w.walk(root, bodyRoot, 0)
			if w.message == "" && !w.found {
				w.message = head(string(body), maxText)
			}
			return w
		}
	}
	if body[0] == '<' {
		w.html = true
		w.message = plainText(string(body))
		return w
	}
	w.message = head(string(body), maxText)
	return w
}

// firstData is the payload of the first data line of an event stream.
func firstData(body []byte) []byte {
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:")); ok {
			return bytes.TrimSpace(data)
		}
	}
	return nil
}

// place says which object of a body is read; it decides which fields are the provider's own words.
type place uint8

const (
	bodyRoot place = iota
	anError        // an error or a part of one
	anAnswer       // an answer or a choice: it repeats the client's metadata and instructions, so only its error is read
)

// inner lists the fields that are followed, in the order in which they are read: the inner error before what is
// around it, as it is the more exact. Other fields are never followed: they may repeat the request, as the "input" of
// a validation error does.
var inner = [...][]string{
	bodyRoot: {"error", "errors", "base_resp", "response", "detail", "details", "choices", "header"},
	anError:  {"error", "errors", "base_resp", "header", "innererror", "inner_error", "metadata", "details", "detail", "violations"},
	anAnswer: {"error"},
}

func (w *wire) walk(v any, at place, depth int) {
	if depth > maxDepth {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, item := range v[:min(len(v), 8)] {
			w.walk(item, at, depth+1)
		}
	case map[string]any:
		w.object(v, at, depth)
	}
}

func (w *wire) object(o map[string]any, at place, depth int) {
	if at == bodyRoot && bare(o) {
		at = anError
	}
	if at != anAnswer {
		w.objects = append(w.objects, o)
	}
	for _, key := range inner[at] {
		switch v := o[key].(type) {
		case string:
			w.say(key, v)
		case map[string]any, []any:
			switch key {
			case "response", "choices":
				w.walk(v, anAnswer, depth+1)
				continue
			case "error", "errors":
				w.found = true
			}
			w.walk(v, anError, depth+1)
		}
	}
	if at == anAnswer {
		return
	}
	for _, key := range []string{"message", "msg", "error_message", "error_msg", "errormessage", "error_description", "status_msg", "Message", "err_msg"} {
		if s, ok := o[key].(string); ok {
			w.say(key, s)
		}
	}
	for _, key := range []string{"code", "error_code", "errorCode", "status_code", "http_code", "status", "__type", "reason", "quotaId", "err_code", "error_type", "type"} {
		w.name(key, o[key])
	}
	if p, ok := o["param"].(string); ok && w.param == "" {
		w.param = p
	}
	if at == bodyRoot {
		return
	}
	if raw, ok := o["raw"].(string); ok { // OpenRouter: the provider's own body, as a string
		w.raw(raw, depth)
	}
	if h, ok := o["headers"].(map[string]any); ok {
		w.quoted(h)
	}
}

// bare reports an error object that stands alone, without the envelope of its protocol.
func bare(o map[string]any) bool {
	for _, key := range []string{"error", "errors", "response", "choices", "output", "object", "id"} {
		if _, has := o[key]; has {
			return false
		}
	}
	return true
}

func (w *wire) say(key, s string) {
	if s == "" {
		return
	}
	switch key {
	case "error", "errors", "detail", "error_message", "error_msg", "errormessage", "error_description", "err_msg":
		w.found = true
	case "base_resp", "response", "choices", "header", "innererror", "inner_error", "metadata", "violations":
		return
	}
	if w.message == "" {
		w.message = head(s, maxText)
	}
}

// name takes a machine-readable name. A number between 400 and 599 is an HTTP status; one between 200 and 299, and
// MiniMax's 0, say that all is well.
func (w *wire) name(key string, v any) {
	var s string
	switch v := v.(type) {
	case string:
		s = v
	case json.Number:
		s = v.String()
	default:
		return
	}
	if s == "" || len(s) > 200 || key == "type" && (s == "error" || s == "response.failed") {
		if s != "" && key == "type" {
			w.found = true
		}
		return
	}
	if n, err := strconv.Atoi(s); err == nil {
		switch {
		case n == 0 || n >= 200 && n < 300:
			return
		case n >= 400 && n < 600 && w.status == 0:
			w.status = n
		}
	}
	w.codes = append(w.codes, strings.ToLower(s))
	switch {
	case key == "type" || key == "error_type" || key == "__type":
		if w.typ == "" {
			w.typ = s
		}
	case key == "status" && w.typ == "" && s == strings.ToUpper(s) && strings.ToLower(s) != s: // google.rpc.Code
		w.typ = s
	case key == "reason" || key == "quotaId" || key == "status":
	case w.code == "" || key == "code" && w.status > 0 && w.code == strconv.Itoa(w.status):
		w.code = s
	}
	if key != "type" && key != "status" && key != "reason" {
		w.found = true
	}
}

// raw reads a body quoted inside a body.
func (w *wire) raw(s string, depth int) {
	var body any
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	if dec.Decode(&body) == nil {
		w.walk(body, bodyRoot, depth+1)
	} else {
		w.say("message", s)
	}
}

func (w *wire) quoted(h map[string]any) {
	for k, v := range h {
		var s string
		switch v := v.(type) {
		case string:
			s = v
		case json.Number:
			s = v.String()
		default:
			continue
		}
		if w.headers == nil {
			w.headers = http.Header{}
		}
		w.headers.Set(k, s)
	}
}

// adopt prefers what the protocol family read over what was found here.
func (w *wire) adopt(code, typ, message string) {
	for _, s := range []string{code, typ} {
		if n, err := strconv.Atoi(s); err == nil && n >= 400 && n < 600 && w.status == 0 {
			w.status = n
		}
		if s != "" {
			w.codes = append(w.codes, strings.ToLower(s))
			w.found = true
		}
	}
	if code != "" {
		w.code = code
	}
	if typ != "" {
		w.typ = typ
	}
	if message != "" && !strings.Contains(w.message, message) {
		w.message, w.found = head(message, maxText), true
	}
}

func head(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

// plainText is what a person would see of an HTML page, roughly: no tags, scripts or styles.
func plainText(page string) string {
	var b strings.Builder
	for page != "" && b.Len() < maxText {
		open := strings.IndexByte(page, '<')
		if open < 0 {
			b.WriteString(page)
			break
		}
		b.WriteString(page[:open])
		b.WriteByte(' ')
		page = page[open:]
		for _, skip := range []string{"script", "style"} {
			if len(page) > len(skip) && strings.EqualFold(page[1:1+len(skip)], skip) {
				if end := strings.Index(strings.ToLower(page), "</"+skip); end > 0 {
					page = page[end:]
				}
			}
		}
		end := strings.IndexByte(page, '>')
		if end < 0 {
			break
		}
		page = page[end+1:]
	}
	return head(strings.TrimSpace(b.String()), maxText)
}

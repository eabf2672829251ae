package protocol

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"spillway/internal/gateway"
)

// ErrorObject is the error object of OpenAI chat and responses, with what Spillway adds: SDKs read the first four
// fields and ignore the rest. The other families embed the same additions.
type ErrorObject struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
	Status  int     `json:"status,omitzero"` // in streams, where the HTTP status is long gone
	Extra
}

// Extra is what every error of the gateway carries beside the fields of its protocol.
type Extra struct {
	RetryAfter  int             `json:"retry_after,omitzero"` // seconds
	Next        string          `json:"next,omitzero"`
	Diagnostics json.RawMessage `json:"diagnostics,omitempty"` // see diagnostics
}

// NewErrorObject fills an ErrorObject; inStream adds the status.
func NewErrorObject(e *gateway.Error, inStream bool) ErrorObject {
	o := ErrorObject{Message: MessageOf(e), Type: TypeOf(e, openAITypes), Code: string(e.Code), Extra: ExtraOf(e)}
	if e.Param != "" {
		o.Param = &e.Param
	}
	if inStream {
		o.Status = e.HTTPStatus()
	}
	return o
}

// ExtraOf collects the additions of e. Diagnostics that cannot be encoded (a time beyond the year 9999) are left out:
// an error must reach the client whatever it says.
func ExtraOf(e *gateway.Error) Extra {
	x := Extra{RetryAfter: RetrySeconds(e.RetryAfter), Next: e.Next}
	if e.Diagnostics != nil {
		if raw, err := json.Marshal(written(e.Diagnostics)); err == nil {
			x.Diagnostics = raw
		}
	}
	return x
}

// diagnostics is gateway.Diagnostics as clients read it: a target has the form that the configuration gives it.
type diagnostics struct {
	*gateway.Diagnostics
	Excluded []exclusion `json:"excluded,omitempty"` // hides the field of the same name
}

type exclusion struct {
	Target string `json:"target"`
	gateway.Exclusion
}

func written(d *gateway.Diagnostics) diagnostics {
	out := diagnostics{Diagnostics: d}
	for _, x := range d.Excluded {
		out.Excluded = append(out.Excluded, exclusion{Target: x.Target.String(), Exclusion: x})
	}
	return out
}

// RetrySeconds rounds up to whole seconds, as the Retry-After header does.
func RetrySeconds(d time.Duration) int {
	if d <= 0 {
		return 0
	}
	return int((d + time.Second - 1) / time.Second)
}

// MessageOf is the text that people see. SDKs show nothing else, so the next step is part of it, except behind the
// upstream's own words.
func MessageOf(e *gateway.Error) string {
	switch {
	case e.Message == "" && e.Next == "":
		return string(e.Code)
	case e.Message == "":
		return e.Next
	case e.Next == "" || e.Upstream:
		return e.Message
	}
	if strings.HasSuffix(e.Message, ".") || strings.HasSuffix(e.Message, "?") {
		return e.Message + " " + e.Next
	}
	return e.Message + ". " + e.Next
}

// Types is a table from HTTP status to a protocol's error type, with defaults for the rest of 4xx and 5xx.
type Types struct {
	ByStatus       map[int]string
	Caller, Server string
}

var openAITypes = Types{
	ByStatus: map[int]string{401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"},
	Caller:   "invalid_request_error", Server: "server_error",
}

// TypeOf is the type of e: the upstream's own where it is kept, else by status.
func TypeOf(e *gateway.Error, t Types) string {
	status := e.HTTPStatus()
	switch byStatus, ok := t.ByStatus[status]; {
	case e.Type != "":
		return e.Type
	case ok:
		return byStatus
	case status >= 500:
		return t.Server
	}
	return t.Caller
}

// AppendJSON appends v, a value made of plain structs, maps and strings, without escaping <, > and &.
func AppendJSON(dst []byte, v any) []byte {
	buf := bytes.NewBuffer(dst)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("protocol: an error object cannot be encoded: " + err.Error()) // only a programming fault can do this
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})
}

// Seconds is a duration in Google's JSON form.
func Seconds(n int) string { return strconv.Itoa(n) + "s" }

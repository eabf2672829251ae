package attempt

import (
	"io"
	"net/http"

	"spillway/internal/envelope"
	"spillway/internal/gateway"
)

// forwarded are the client's headers that go upstream as they are. Everything else stays here: client credentials,
// cookies, session and lease headers, and whatever else a client may send.
var forwarded = []string{"Anthropic-Beta", "Anthropic-Version", "Openai-Beta", "Openai-Organization", "Openai-Project",
	"Http-Referer", "X-Title", "Idempotency-Key", "X-App", "Originator"}

var (
	acceptStream = []string{"text/event-stream"}
	acceptJSON   = []string{"application/json"}
	acceptAny    = []string{"*/*"}
	contentJSON  = []string{"application/json"}
	identity     = []string{"identity"}
	gzipOrPlain  = []string{"gzip, identity"}
)

// request builds the upstream request from the untouched envelope: the client's bytes with only the named members
// replaced, and headers from the allow-list.
func (f *flight) request() *http.Request {
	job := f.run.job
	env := job.Envelope
	c := f.candidate
	h := make(http.Header, 8)
	for _, name := range forwarded {
		if v, ok := job.Header[name]; ok {
			h[name] = v
		}
	}
	h["Content-Type"] = contentJSON
	if env.FormType != "" {
		h["Content-Type"] = []string{env.FormType}
	}
	h["User-Agent"] = f.run.engine.agent
	url := c.URL
	if env.Stream {
		url = c.StreamURL
		h["Accept"], h["Accept-Encoding"] = acceptStream, identity
	} else {
		h["Accept"], h["Accept-Encoding"] = acceptJSON, gzipOrPlain
		if !env.Operation.JSON() {
			h["Accept"] = acceptAny
		}
	}
	for name, value := range c.Candidate.Connection.Provider.Headers {
		h.Set(name, value)
	}
	f.key = c.Candidate.Connection.Credential.Value()
	if c.Lane != nil {
		f.enter(h)
	}
	job.Family.Authorize(h, c.Candidate, f.key)
	edit := envelope.Edit{
		Model:        string(c.Candidate.Model),
		IncludeUsage: !c.Candidate.Connection.Provider.Quirks.NoStreamOptions,
	}
	if env.Sealed {
		edit.Cuts = f.unseal(env)
	}
	body := envelope.Apply(env, edit)
	req := &http.Request{
		Method: http.MethodPost, URL: url, Host: url.Host, Header: h,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Body: job.Bodies.Open(&body), ContentLength: int64(body.Len()),
	}
	// GetBody lets the transport send again on another socket when an idle one was closed before a byte of the request
	// was accepted; that is the same attempt, not a retry.
	req.GetBody = func() (io.ReadCloser, error) { return job.Bodies.Open(&body), nil }
	return req.WithContext(f.ctx)
}

// renames reports whether the model name in the answer must be put back to what the client asked for.
func (f *flight) renames() bool {
	env := f.run.job.Envelope
	return f.run.job.Rename && env.Protocol != gateway.Gemini && env.Operation.JSON() && env.Model != string(f.candidate.Candidate.Model)
}

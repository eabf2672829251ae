package verdict

import (
	"net/http"
	"strings"
	"time"

	"spillway/internal/gateway"
)

// reading is an upstream's error as rules see it.
type reading struct {
	status   int  // after restatement
	said     int  // before it
	known    bool // the body says which status an error inside a 200 stands for
	inside   bool
	provider *gateway.Provider
	header   http.Header
	wire     *wire
	typ      string // error type, in lower case
	prose    *prose
	hint     time.Duration
	source   gateway.HintSource

	providerName, connection string   // ids in lower case
	labels                   []string // of the provider's host name
}

func (c *reading) providerID() gateway.ProviderID {
	if c.provider == nil {
		return ""
	}
	return c.provider.ID
}

// unknownStatus is what an error inside a 200 gets when nothing in it says more.
const unknownStatus = 502

// noPayment is how long a 402 without a credits code keeps an account away; spec resilience.md section 1.
const noPayment = 2 * time.Minute

// read is what rules see of an error, before anything is restated.
func (e *Evidence) read() *reading {
	w := readBody(e.Body)
	w.adopt(e.Code, e.Type, e.Message)
	if h := e.Header.Get("X-Amzn-Errortype"); h != "" { // Bedrock names its error in a header
		name, _, _ := strings.Cut(h, ":")
		w.codes = append(w.codes, strings.ToLower(name))
	}
	c := &reading{status: e.Status, known: true, inside: e.InStream || e.Status < 300, provider: e.provider(),
		header: e.Header, wire: &w, typ: strings.ToLower(w.typ)}
	if conn := e.Candidate.Connection; conn != nil {
		c.connection = strings.ToLower(string(conn.ID))
	}
	if c.provider != nil {
		c.providerName, c.labels = strings.ToLower(string(c.provider.ID)), hostLabels(c.provider.BaseURL)
	}
	if c.inside && (e.Status < 300 || e.Status == unknownStatus) { // else the protocol family has worked it out
		c.status, c.known = w.implied()
		if !e.InStream && !w.found { // nothing in the body says what went wrong
			c.status = e.Status
		}
	}
	c.said = c.status
	c.prose = newProse(w.message, w.code, w.typ, string(e.Candidate.Model), e.RequestText)
	return c
}

// restateReading is the first stage: it corrects the status, and then the hint can be read.
func (r *Rules) restateReading(c *reading, e *Evidence) *restating {
	status, re := r.restated(c)
	c.status = status
	c.hint, c.source, _ = hint(max(c.status, 400), c.header, c.wire, c.prose, e.EndedAt)
	return re
}

// spoken classifies what the upstream said: an HTTP error, an error inside a 200, or a 200 that is no answer.
func (r *Rules) spoken(e *Evidence) gateway.Outcome {
	c := e.read()
	re := r.restateReading(c, e)
	w := c.wire

	o, rule := r.classify(c, e)
	o.Status = c.status
	o.Structured = rule != nil && rule.structured() || !w.html && (c.said == 401 || c.said == 402 || c.said == 403)
	if s := kindStatus[o.Kind]; s != 0 && !c.known && c.status == unknownStatus {
		o.Status = s
		if !o.Structured && s > 400 && s < 404 {
			o.Status = 400 // a status that counts as evidence may not be made of words
		}
	}
	o.Code, o.Type = clean(w.code, e.secret(), maxName), clean(w.typ, e.secret(), maxName)
	o.Message = clean(c.prose.forPeople(), e.secret(), maxMessage)
	if re != nil {
		if o.Rule == "" {
			o.Rule = re.ID
		}
		if o.RetryAfter == 0 {
			o.TellAfter = re.DefaultRetryAfter
		}
	}
	return o
}

// classify asks the rules, then the refused features, then the status.
func (r *Rules) classify(c *reading, e *Evidence) (gateway.Outcome, *compiled) {
	rule := r.match(c)
	var o gateway.Outcome
	switch {
	case rule != nil && rule.Kind != nil:
		o = outcome(*rule.Kind, defaultReason[*rule.Kind])
	default:
		o = c.refused()
		if o.Quirk == "" {
			o = c.byStatus(e)
		}
	}
	if o.Kind == gateway.ServiceError && c.inside && o.Reason == gateway.UpstreamStatus {
		o.Reason = gateway.ErrorInStream
	}
	if c.provider != nil && c.provider.PerModelQuota && (o.Kind == gateway.RateLimited || o.Kind == gateway.QuotaExhausted) {
		o.Scope = gateway.ScopeModel
	}
	ignore := time.Duration(0)
	if rule != nil {
		o.Rule, ignore = rule.ID, rule.IgnoreHintBelow
		rule.apply(&o)
	}
	c.remember(&o, ignore)
	return o, rule
}

func (rule *compiled) apply(o *gateway.Outcome) {
	if rule.Scope != nil {
		o.Scope = *rule.Scope
	}
	if rule.Reason != nil {
		o.Reason = *rule.Reason
	}
	if rule.Quirk != "" {
		o.Quirk, o.Reason = rule.Quirk, gateway.CapabilityRefused
	}
	if rule.Retired {
		o.Retired, o.Reason = true, gateway.ModelRetired
	}
	if rule.Cooldown > 0 {
		o.RetryAfter, o.Hint = rule.Cooldown, gateway.HintRule
	}
	o.Uncounted = rule.Count != nil && !*rule.Count
}

// remember puts the hint into the outcomes that can use one. Prose speaks of rates and quotas; for other faults only a
// header or a field of the body counts.
func (c *reading) remember(o *gateway.Outcome, ignore time.Duration) {
	d, src := c.hint, c.source
	switch o.Kind {
	case gateway.RateLimited, gateway.QuotaExhausted:
	case gateway.CreditsExhausted, gateway.ServiceError, gateway.AuthError, gateway.RequestRejected:
		if src == gateway.HintProse {
			return
		}
	default:
		return
	}
	if d == 0 || d < ignore {
		return
	}
	o.RetryAfter, o.Hint = d, src
}

// byStatus is the status column of spec resilience.md section 1.
func (c *reading) byStatus(e *Evidence) gateway.Outcome {
	switch s := c.status; {
	case s < 400: // a 200 that is no answer, or a redirect that nobody may follow
		return outcome(gateway.ServiceError, gateway.NotACompletion)
	case s == 401, s == 403:
		if c.wire.html && s == 403 { // an edge in front of the provider refuses our address, not the key
			return outcome(gateway.ServiceError, gateway.UpstreamStatus)
		}
		return outcome(gateway.AuthError, gateway.KeyRefused)
	case s == 402:
		o := outcome(gateway.QuotaExhausted, gateway.QuotaHit)
		o.RetryAfter, o.Hint = noPayment, gateway.HintRule
		return o
	case s == 408, s >= 500:
		return outcome(gateway.ServiceError, gateway.UpstreamStatus)
	case s == 425, s == 429:
		return outcome(gateway.RateLimited, gateway.RateLimitHit)
	case s == 413:
		return outcome(gateway.Alive, gateway.ContextTooLong)
	}
	return outcome(gateway.Alive, gateway.CallerFault)
}

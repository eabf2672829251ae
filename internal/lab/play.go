package lab

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"spillway/internal/lab/fault"
	"spillway/internal/lab/wire"
)

// play is one request being answered, well or badly. Its memory serves one request after another.
type play struct {
	s *Source
	reply
	call    wire.Call
	sent    []byte // the body of the request
	a       *Attempt
	n       uint64
	elapsed time.Duration // of the script, when the request came
	even    time.Duration // between the tokens; negative = each has its own
	out     wire.Answer
	faults  []*fault.Fault // that the request meets
	end     *fault.Fault   // how it ends badly; nil = well
	slow    *fault.Fault   // late first token
	crawl   *fault.Fault   // trickle
	short   *fault.Fault   // another, short answer
}

const (
	eventStream = "text/event-stream; charset=utf-8"
	jsonBody    = "application/json"
)

// run decides and answers.
func (p *play) run(key string, running int, now time.Time) {
	p.n = uint64(p.a.N)
	cfg := &p.s.cfg
	if len(cfg.Keys) > 0 && !contains(cfg.Keys, key) {
		p.mark("key refused")
		p.fail(unauthorized, 0)
		return
	}
	if len(cfg.Models) > 0 && !contains(cfg.Models, p.call.Model) {
		p.mark(string(fault.ModelMissing))
		p.fail(missing(p.call.Model), 0)
		return
	}
	if p.call.Op == wire.CountTokens {
		p.head(http.StatusOK, jsonBody)
		p.raw(wire.Other(&p.call, nil, now))
		return
	}
	for _, b := range p.s.buckets {
		if wait, ok := b.Take(now); !ok {
			p.mark(string(fault.RateLimit))
			p.fail(limited(wait), wait)
			return
		}
	}
	faults, elapsed := p.s.step(p.faults, fault.Ask{Model: p.call.Model, Protocol: p.call.Protocol, Stream: p.call.Stream,
		Prefill: p.call.HasPrefill, Key: key, InFlight: running}, now)
	p.faults, p.elapsed = faults, elapsed
	for _, f := range faults {
		switch {
		case f.Ends():
			p.end = f
			p.mark(string(f.Kind))
			p.s.log.update(func() { p.a.Dead = f.Sure() })
		case f.Kind == fault.SlowFirstToken:
			p.slow = f
		case f.Kind == fault.Trickle:
			p.crawl = f
		case f.Kind == fault.Short:
			p.short = f
		default:
			p.shape(f)
		}
	}
	if p.end != nil && p.refuse(p.end, elapsed) {
		return
	}
	p.answer(now)
}

func contains(list []string, s string) bool {
	return slices.Contains(list, s)
}

func (p *play) mark(what string) { p.s.log.update(func() { p.a.Fault = what }) }

// fail answers with an error status in the protocol's form.
func (p *play) fail(f wire.Failure, retry time.Duration) {
	if retry > 0 {
		p.w.Header().Set("Retry-After", seconds(retry))
	}
	p.head(f.Status, jsonBody)
	p.raw(f.Body(p.call.Protocol))
	p.finish()
}

func seconds(d time.Duration) string {
	return strconv.Itoa(int((d + time.Second - 1) / time.Second))
}

var unauthorized = wire.Failure{Status: http.StatusUnauthorized, Code: "invalid_api_key", Message: "Incorrect API key provided."}

func missing(model string) wire.Failure {
	return wire.Failure{Status: http.StatusNotFound, Code: "model_not_found", Param: "model",
		Message: fmt.Sprintf("The model `%s` does not exist or you do not have access to it.", model)}
}

func limited(retry time.Duration) wire.Failure {
	m := "Rate limit reached for requests per minute."
	if retry > 0 {
		m += " Please try again in " + retry.String() + "."
	}
	return wire.Failure{Status: http.StatusTooManyRequests, Code: "rate_limit_exceeded", Message: m, Retry: retry}
}

// refuse plays the faults in which no part of an answer is sent. It reports whether the fault was one of them.
func (p *play) refuse(f *fault.Fault, elapsed time.Duration) bool {
	p.headers = f.Headers
	switch f.Kind {
	case fault.ResetBeforeHeaders:
		p.drop(true)
	case fault.ResetAfterHeaders:
		p.head(http.StatusOK, p.rightType())
		p.flushHead()
		p.drop(true)
	case fault.Silence:
		if p.forever(f.Delay) == nil {
			p.drop(false)
		}
	case fault.HTML:
		p.head(orInt(f.Status, http.StatusOK), "text/html; charset=utf-8")
		p.raw([]byte(orText(f.Body, "<!DOCTYPE html><html><head><title>Sorry</title></head><body><h1>We will be back soon</h1></body></html>\n")))
		p.finish()
	default:
		e, ok := refusal(f, p.call.Model, elapsed)
		if !ok {
			return false
		}
		if f.Body == "" {
			p.fail(e, e.Retry)
			return true
		}
		if e.Retry > 0 {
			p.w.Header().Set("Retry-After", seconds(e.Retry))
		}
		p.head(e.Status, jsonBody)
		p.raw([]byte(f.Body))
		p.finish()
	}
	return true
}

// refusal is the error of the kinds that are nothing but a status.
func refusal(f *fault.Fault, model string, elapsed time.Duration) (wire.Failure, bool) {
	var e wire.Failure
	switch f.Kind {
	case fault.Status:
		e = wire.Failure{Status: orInt(f.Status, http.StatusInternalServerError), Message: "The server had an error while processing your request.", Retry: f.RetryAfter}
	case fault.Flap:
		e = wire.Failure{Status: orInt(f.Status, http.StatusServiceUnavailable), Message: "The service is temporarily unavailable.", Retry: f.RetryAfter}
	case fault.RateLimit:
		e = limited(f.RetryAfter)
	case fault.ConcurrencyLimit:
		e = wire.Failure{Status: http.StatusTooManyRequests, Code: "concurrency_limit_exceeded", Message: "Too many requests at once.", Retry: f.RetryAfter}
	case fault.Quota:
		e = wire.Failure{Status: http.StatusTooManyRequests, Type: "insufficient_quota", Code: "insufficient_quota",
			Message: "You exceeded your current quota, please check your plan and billing details.", Retry: f.RetryAfter}
		if left := f.Left(elapsed); e.Retry == 0 && left > 0 {
			e.Retry = left
		}
	case fault.Unauthorized:
		e = unauthorized
	case fault.LyingQuota:
		e = wire.Failure{Status: http.StatusForbidden, Message: "Access denied: quota exceeded for this project."}
	case fault.ModelMissing:
		e = missing(model)
	case fault.ContentFilter:
		e = wire.Failure{Status: http.StatusBadRequest, Code: "content_filter", Param: "prompt",
			Message: "The response was filtered due to the prompt triggering the content management policy."}
	case fault.ContextLength:
		e = wire.Failure{Status: http.StatusBadRequest, Code: "context_length_exceeded", Param: "messages",
			Message: "This model's maximum context length is 8192 tokens. However, your messages resulted in more tokens."}
	case fault.PrefillRefused:
		e = wire.Failure{Status: http.StatusBadRequest, Message: "This model does not support assistant message prefill. The conversation must end with a user message."}
	default:
		return e, false
	}
	e.Type, e.Code = orText(f.Type, e.Type), orText(f.Code, e.Code)
	e.Message = orText(f.Message, e.Message)
	if f.Status != 0 {
		e.Status = f.Status
	}
	return e, true
}

// inStream is the error of the kinds that put one inside a 200.
func inStream(f *fault.Fault) wire.Failure {
	return wire.Failure{Status: orInt(f.Status, http.StatusServiceUnavailable), Type: f.Type,
		Code: orText(f.Code, "server_error"), Message: orText(f.Message, "The server is overloaded, please try again later.")}
}

func orInt(v, def int) int {
	if v != 0 {
		return v
	}
	return def
}

func orText(v, def string) string {
	if v != "" {
		return v
	}
	return def
}

func (p *play) rightType() string {
	if p.call.Stream && !p.call.JSONList {
		return eventStream
	}
	return jsonBody
}

package verdict

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"spillway/internal/gateway"
)

func evidence(change func(e *Evidence)) Evidence {
	e := Evidence{Candidate: candidate("p", "https://upstream.test/v1", "m1"), BeganAt: endedAt.Add(-30 * time.Second), EndedAt: endedAt}
	change(&e)
	return e
}

func dial(err error) error {
	return &url.Error{Op: "Post", URL: "https://upstream.test/v1", Err: &net.OpError{Op: "dial", Net: "tcp", Err: err}}
}

// TestOrigin: who ended the attempt decides before anything else is read.
func TestOrigin(t *testing.T) {
	reset := &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for _, c := range []struct {
		name   string
		change func(e *Evidence)
		kind   gateway.Kind
		scope  gateway.Scope
		reason gateway.Reason
		below  bool
	}{
		{"success", func(e *Evidence) { e.Status, e.Content, e.Terminal = 200, true, true }, gateway.Success, gateway.ScopeRequest, gateway.Answered, false},
		{"success, then a reset", func(e *Evidence) { e.Status, e.Content, e.Terminal, e.Transport = 200, true, true, reset }, gateway.Success, gateway.ScopeRequest, gateway.Answered, false},
		{"success, then the client left", func(e *Evidence) { e.Status, e.Content, e.Terminal, e.ClientGone = 200, true, true, true }, gateway.Success, gateway.ScopeRequest, gateway.Answered, false},
		{"success, then a clock", func(e *Evidence) { e.Status, e.Content, e.Terminal, e.Clock = 200, true, true, ClockTotal }, gateway.Success, gateway.ScopeRequest, gateway.Answered, false},
		{"the client left after the terminal event", func(e *Evidence) { e.Content, e.Terminal, e.ClientGone = true, true, true }, gateway.Success, gateway.ScopeRequest, gateway.Answered, false},
		{"refused", func(e *Evidence) { e.Status, e.Terminal, e.Refused = 200, true, true }, gateway.ContentRefused, gateway.ScopeRequest, gateway.ContentPolicy, false},
		{"empty", func(e *Evidence) { e.Status, e.Terminal, e.Empty = 200, true, true }, gateway.EmptyOutput, gateway.ScopeModel, gateway.NoContent, false},
		{"empty without a terminal event", func(e *Evidence) { e.Status = 200 }, gateway.EmptyOutput, gateway.ScopeModel, gateway.NoContent, false},
		{"fails the schema", func(e *Evidence) { e.Status, e.Content, e.Terminal, e.Invalid = 200, true, true, true }, gateway.InvalidResult, gateway.ScopeRequest, gateway.SchemaMismatch, false},
		{"truncated", func(e *Evidence) { e.Status, e.Content = 200, true }, gateway.ServiceError, gateway.ScopeProvider, gateway.Truncated, false},
		{"truncated by a reset", func(e *Evidence) { e.Status, e.Content, e.Transport, e.Phase = 200, true, reset, PhaseStream }, gateway.ServiceError, gateway.ScopeProvider, gateway.Truncated, false},
		{"reset between headers and content", func(e *Evidence) { e.Status, e.Transport = 200, io.ErrUnexpectedEOF }, gateway.ServiceError, gateway.ScopeProvider, gateway.ConnectionReset, false},
		{"client left", func(e *Evidence) { e.ClientGone, e.Transport = true, context.Canceled }, gateway.Canceled, gateway.ScopeRequest, gateway.ClientGone, false},
		{"client left in a stream", func(e *Evidence) { e.Status, e.Content, e.ClientGone = 200, true, true }, gateway.Canceled, gateway.ScopeRequest, gateway.ClientGone, false},
		{"client left, but the upstream had refused", func(e *Evidence) { e.Status, e.ClientGone = 429, true }, gateway.RateLimited, gateway.ScopeAccount, gateway.RateLimitHit, false},
		{"race lost", func(e *Evidence) { e.RaceLost, e.Transport = true, context.Canceled }, gateway.Canceled, gateway.ScopeRequest, gateway.RaceLost, false},
		{"host fault", func(e *Evidence) { e.HostFault, e.Status = true, 503 }, gateway.LocalError, gateway.ScopeRequest, gateway.HostFault, false},
		{"nothing known", func(*Evidence) {}, gateway.LocalError, gateway.ScopeRequest, gateway.HostFault, false},

		{"clock connect", func(e *Evidence) { e.Clock, e.Transport = ClockConnect, context.Canceled }, gateway.Timeout, gateway.ScopeProvider, gateway.ConnectTimeout, true},
		{"clock headers", func(e *Evidence) { e.Clock = ClockHeaders }, gateway.Timeout, gateway.ScopeProvider, gateway.HeadersTimeout, false},
		{"clock first content", func(e *Evidence) { e.Clock, e.Status = ClockFirstContent, 200 }, gateway.Slow, gateway.ScopeAttempt, gateway.LeftEarly, false},
		{"clock first content, nowhere else", func(e *Evidence) { e.Clock, e.Status, e.LastChance = ClockFirstContent, 200, true }, gateway.Timeout, gateway.ScopeProvider, gateway.FirstContentTimeout, false},
		{"clock last chance", func(e *Evidence) { e.Clock = ClockLastChance }, gateway.Timeout, gateway.ScopeProvider, gateway.FirstContentTimeout, false},
		{"clock idle", func(e *Evidence) { e.Clock, e.Status, e.Content = ClockIdle, 200, true }, gateway.Timeout, gateway.ScopeProvider, gateway.IdleTimeout, false},
		{"clock total", func(e *Evidence) { e.Clock = ClockTotal }, gateway.Timeout, gateway.ScopeProvider, gateway.TotalTimeout, false},
		{"clock stream total", func(e *Evidence) { e.Clock, e.Status, e.Content = ClockStreamTotal, 200, true }, gateway.Timeout, gateway.ScopeProvider, gateway.TotalTimeout, false},
		{"clock stall", func(e *Evidence) { e.Clock, e.Status, e.Content = ClockStall, 200, true }, gateway.Stall, gateway.ScopeAttempt, gateway.TooSlow, false},
		{"deadline after 30 s", func(e *Evidence) { e.Clock = ClockDeadline }, gateway.Slow, gateway.ScopeAttempt, gateway.DeadlinePassed, false},
		{"deadline after 30 s, nowhere else", func(e *Evidence) { e.Clock, e.LastChance = ClockDeadline, true }, gateway.Timeout, gateway.ScopeProvider, gateway.DeadlinePassed, false},
		{"deadline after 1 s", func(e *Evidence) { e.Clock, e.LastChance, e.BeganAt = ClockDeadline, true, endedAt.Add(-time.Second) }, gateway.LocalError, gateway.ScopeRequest, gateway.DeadlinePassed, false},
		{"deadline after 6 min", func(e *Evidence) { e.Clock, e.BeganAt = ClockDeadline, endedAt.Add(-6*time.Minute) }, gateway.Timeout, gateway.ScopeProvider, gateway.DeadlinePassed, false},

		{"refused connection", func(e *Evidence) { e.Transport = dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)) }, gateway.ServiceError, gateway.ScopeProvider, gateway.ConnectFailed, true},
		{"no route", func(e *Evidence) { e.Transport = dial(os.NewSyscallError("connect", syscall.ENETUNREACH)) }, gateway.ServiceError, gateway.ScopeProvider, gateway.ConnectFailed, true},
		{"DNS", func(e *Evidence) {
			e.Transport = dial(&net.DNSError{Err: "no such host", Name: "upstream.test", IsNotFound: true})
		}, gateway.ServiceError, gateway.ScopeProvider, gateway.DNSFailed, true},
		{"TLS", func(e *Evidence) {
			e.Transport = fmt.Errorf("post: %w", &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}})
		}, gateway.ServiceError, gateway.ScopeProvider, gateway.TLSFailed, true},
		{"TLS handshake", func(e *Evidence) {
			e.Transport, e.Phase = errors.New("remote error: tls: handshake failure"), PhaseConnect
		}, gateway.ServiceError, gateway.ScopeProvider, gateway.TLSFailed, true},
		{"dial timeout", func(e *Evidence) { e.Transport = dial(os.ErrDeadlineExceeded) }, gateway.Timeout, gateway.ScopeProvider, gateway.ConnectTimeout, true},
		{"read timeout before headers", func(e *Evidence) {
			e.Transport, e.Phase = &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, PhaseHeaders
		}, gateway.Timeout, gateway.ScopeProvider, gateway.HeadersTimeout, false},
		{"reset before headers", func(e *Evidence) { e.Transport, e.Phase = reset, PhaseHeaders }, gateway.ServiceError, gateway.ScopeProvider, gateway.ConnectionReset, true},
		{"EOF before headers", func(e *Evidence) { e.Transport = io.EOF }, gateway.ServiceError, gateway.ScopeProvider, gateway.ConnectionReset, true},
		{"no more files here", func(e *Evidence) { e.Transport = dial(os.NewSyscallError("socket", syscall.EMFILE)) }, gateway.LocalError, gateway.ScopeRequest, gateway.HostFault, false},
		{"cancelled by nobody known", func(e *Evidence) { e.Transport = context.Canceled }, gateway.LocalError, gateway.ScopeRequest, gateway.HostFault, false},
		{"deadline of the context", func(e *Evidence) { e.Transport = context.DeadlineExceeded }, gateway.Slow, gateway.ScopeAttempt, gateway.DeadlinePassed, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := builtinRules.Judge(evidence(c.change))
			if o.Kind != c.kind || o.Scope != c.scope || o.Reason != c.reason || o.BelowHTTP != c.below {
				t.Errorf("got %v %v %v below=%v, want %v %v %v below=%v", o.Kind, o.Scope, o.Reason, o.BelowHTTP, c.kind, c.scope, c.reason, c.below)
			}
		})
	}
}

// TestStatusTable walks every status without a body: the table of spec resilience.md section 1.
func TestStatusTable(t *testing.T) {
	want := func(s int) gateway.Kind {
		switch s {
		case 401, 403:
			return gateway.AuthError
		case 402:
			return gateway.QuotaExhausted
		case 425, 429:
			return gateway.RateLimited
		case 408:
			return gateway.ServiceError
		}
		if s < 400 || s >= 500 {
			return gateway.ServiceError
		}
		return gateway.Alive
	}
	for s := 300; s < 600; s++ {
		o := builtinRules.Judge(evidence(func(e *Evidence) { e.Status = s }))
		if o.Kind != want(s) || o.Status != s {
			t.Errorf("%d: %v with status %d, want %v", s, o.Kind, o.Status, want(s))
		}
		if o.Structured != (s == 401 || s == 402 || s == 403) {
			t.Errorf("%d: structured %v", s, o.Structured)
		}
	}
}

func TestOutcomeCarriesTheAttempt(t *testing.T) {
	for _, status := range []int{200, 500} {
		e := evidence(func(e *Evidence) {
			e.Status, e.Request, e.ClientKey, e.Usage, e.Content, e.Terminal = status, "req_1", "dev", gateway.Usage{Input: 3}, true, true
		})
		o := builtinRules.Judge(e)
		if o.Request != "req_1" || o.ClientKey != "dev" || o.Usage.Input != 3 || !o.Content || !o.EndedAt.Equal(e.EndedAt) || !o.BeganAt.Equal(e.BeganAt) {
			t.Errorf("%d: %+v", status, o)
		}
	}
}

func TestPerModelQuotaScope(t *testing.T) {
	e := evidence(func(e *Evidence) { e.Status = 429 })
	e.Candidate.Connection.Provider.PerModelQuota = true
	if o := builtinRules.Judge(e); o.Scope != gateway.ScopeModel {
		t.Errorf("scope %v, want model", o.Scope)
	}
}

func BenchmarkJudgeSuccess(b *testing.B) {
	e := evidence(func(e *Evidence) { e.Status, e.Content, e.Terminal = 200, true, true })
	b.ReportAllocs()
	for b.Loop() {
		if o := builtinRules.Judge(e); o.Kind != gateway.Success {
			b.Fatal(o.Kind)
		}
	}
}

func BenchmarkJudgeCallerFault(b *testing.B) {
	e := httpError(400, `{"error":{"message":"We could not parse the JSON body of your request. (HINT: This likely means you aren't using your HTTP library correctly.)","type":"invalid_request_error","param":null,"code":null}}`)
	b.ReportAllocs()
	for b.Loop() {
		builtinRules.Judge(e)
	}
}

func BenchmarkJudgeRateLimit(b *testing.B) {
	request := make([]byte, 200<<10)
	for i := range request {
		request[i] = 'a' + byte(i*7%26)
	}
	e := evidence(func(e *Evidence) {
		e.Status = 429
		e.Body = []byte(`{"error":{"message":"Rate limit reached for m1 on tokens per min (TPM): Limit 30000. Please try again in 6.64s.","type":"tokens","code":"rate_limit_exceeded"}}`)
		e.RequestText = func() []byte { return request }
	})
	b.ReportAllocs()
	for b.Loop() {
		builtinRules.Judge(e)
	}
}

func TestSuccessAllocatesNothing(t *testing.T) {
	e := evidence(func(e *Evidence) { e.Status, e.Content, e.Terminal = 200, true, true })
	if n := testing.AllocsPerRun(100, func() { builtinRules.Judge(e) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

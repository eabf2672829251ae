// Package frame is what the Go scripts share: it reads the plan, makes each call in one of its lanes and prints one JSON
// line per call, as the scripts in other languages do. It judges nothing.
package frame

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Call is one thing to do with an SDK.
type Call struct {
	Check, Do, Base, Key, API, Model, Prompt string
	Stream                                   bool
	Timeout                                  int `json:"timeout_ms"`
}

// Seen is what was seen of one call.
type Seen struct {
	Check      string   `json:"check"`
	Text       string   `json:"text"`
	Finish     []string `json:"finish"`
	Ended      int      `json:"ended"`
	Late       int      `json:"late"`
	Usages     int      `json:"usages"`
	Prompt     int64    `json:"prompt_tokens"`
	Completion int64    `json:"completion_tokens"`
	Total      int64    `json:"total_tokens"`
	IDs        int      `json:"ids"`
	Tools      []Tool   `json:"tools"`
	Models     []string `json:"models"`
	Vectors    []int    `json:"vectors"`
	Error      *Failure `json:"error"`
}

// Tool is a tool call that came.
type Tool struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Failure is an error that came.
type Failure struct {
	Class   string `json:"class"`
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Weather are the parameters of the tool that every call offers.
var Weather = map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}}

// Tally adds one answer's usage.
func (s *Seen) Tally(prompt, completion, total int64) {
	s.Usages++
	s.Prompt += prompt
	s.Completion += completion
	s.Total += total
}

// End notes one end of an answer.
func (s *Seen) End(reason string) {
	s.Ended++
	s.Finish = append(s.Finish, reason)
}

// Status is the failure that an error of an SDK with an HTTP status is; status 200 means that it came inside a stream.
func Status(status int, code, message string) *Failure {
	f := &Failure{Class: fmt.Sprintf("status %d", status), Status: status, Code: code, Message: message}
	switch {
	case status >= 500:
		f.Class = "status 5xx"
	case status < 400:
		f.Class, f.Status = "in stream", 0
	}
	return f
}

func failure(err error, own func(error) *Failure) *Failure {
	if f := own(err); f != nil {
		return f
	}
	f := &Failure{Message: err.Error()}
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		f.Class = "deadline"
	case errors.As(err, &network):
		f.Class = "connection"
	default:
		f.Class = fmt.Sprintf("%T", err)
	}
	return f
}

// Run makes the calls of the plan that the last argument names. own says what an error of the SDK's own type is, and
// returns nil for others.
func Run(make func(context.Context, Call, *Seen) error, own func(error) *Failure) {
	if err := run(make, own); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(make func(context.Context, Call, *Seen) error, own func(error) *Failure) error {
	data, err := os.ReadFile(os.Args[len(os.Args)-1])
	if err != nil {
		return err
	}
	var plan struct {
		Calls []Call
		Lanes int
	}
	if err := json.Unmarshal(data, &plan); err != nil {
		return err
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	one := func(c Call) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(c.Timeout)*time.Millisecond)
		defer cancel()
		seen := &Seen{Check: c.Check}
		if err := make(ctx, c, seen); err != nil {
			seen.Error = failure(err, own)
		}
		mu.Lock()
		defer mu.Unlock()
		if err := out.Encode(seen); err != nil {
			panic(err)
		}
	}
	var wg sync.WaitGroup
	left := makeQueue(plan.Calls)
	for range plan.Lanes {
		wg.Go(func() {
			for c := range left {
				one(c)
			}
		})
	}
	wg.Wait()
	return nil
}

func makeQueue(calls []Call) <-chan Call {
	q := make(chan Call, len(calls))
	for _, c := range calls {
		q <- c
	}
	close(q)
	return q
}

// ToolResult is what the client's tool answers, as an object.
func ToolResult() map[string]any { return map[string]any{"sky": "clear"} }

// ToolText is the same as text.
const ToolText = `{"sky":"clear"}`

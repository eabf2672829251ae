package record

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"spillway/internal/account"
	"spillway/internal/gateway"
	"spillway/internal/store"
	"spillway/internal/store/sqlite"
	"spillway/internal/view"
)

// MaxRequests is how many requests are read, the newest ones of a database.
const MaxRequests = 200_000

// Open reads a log: a data directory, a database file, or a file of decision logs as GET /api/requests/{id} gives them,
// one after the other or in one array. A database may be in use.
func Open(ctx context.Context, path string) (*Log, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		path = filepath.Join(path, sqlite.File)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReader(f)
	var list []*gateway.Journey
	if head, _ := in.Peek(len(sqliteHead)); string(head) == sqliteHead {
		list, err = fromDatabase(ctx, path)
	} else {
		list, err = fromJSON(in)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return New(list), nil
}

const sqliteHead = "SQLite format 3\x00"

func fromDatabase(ctx context.Context, path string) (out []*gateway.Journey, err error) {
	db, err := sqlite.OpenReader(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	f := store.Filter{Limit: 1000}
	for len(out) < MaxRequests {
		list, next, err := account.Page(ctx, db, f)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
		if next == 0 {
			break
		}
		f.After = next
	}
	return out, nil
}

func fromJSON(in io.Reader) ([]*gateway.Journey, error) {
	dec := json.NewDecoder(in)
	var out []*gateway.Journey
	for len(out) < MaxRequests {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err == io.EOF {
			break
		} else if err != nil {
			return nil, fmt.Errorf("neither a database nor decision logs in JSON: %w", err)
		}
		list := []view.Request{{}}
		var err error
		if bytes.HasPrefix(raw, []byte("[")) {
			list = nil
			err = json.Unmarshal(raw, &list)
		} else {
			err = json.Unmarshal(raw, &list[0])
		}
		if err != nil {
			return nil, fmt.Errorf("decision log %d: %w", len(out)+1, err)
		}
		for i := range list {
			out = append(out, journey(&list[i]))
		}
	}
	return out, nil
}

// journey is the part of a decision log that a replay needs.
func journey(r *view.Request) *gateway.Journey {
	j := &gateway.Journey{ID: r.ID, At: r.At, EndedAt: r.EndedAt, Protocol: r.Protocol, Operation: r.Operation, Model: r.Model,
		Combo: r.Combo, Strategy: r.Strategy, Stream: r.Stream, Tokens: r.Estimated, CopyOf: r.CopyOf, PoolSize: r.PoolSize,
		Status: r.Status, Code: r.Code}
	for _, x := range r.Excluded {
		provider, model, _ := strings.Cut(x.Target, "/")
		j.Excluded = append(j.Excluded, gateway.Exclusion{Connection: x.Connection, Layer: x.Layer, Reason: x.Reason, Until: x.Until,
			Target: gateway.Target{Provider: gateway.ProviderID(provider), Model: gateway.ModelID(model)}})
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		j.Attempts = append(j.Attempts, gateway.Attempt{N: a.N, Target: gateway.Target{Provider: a.Provider, Model: a.Model},
			Connection: a.Connection, BeganAt: a.BeganAt, HeadersAt: a.HeadersAt, ContentAt: a.FirstContentAt, EndedAt: a.EndedAt,
			Kind: a.Kind, Scope: a.Scope, Reason: a.Reason, Status: a.Status, Message: a.Message, RetryAfter: a.RetryAfterS})
	}
	return j
}

// Logged are the figures of the log itself, to compare with.
type Logged struct {
	Calls, Answered, Attempts int
	First                     []time.Duration // to the first content of those that were answered, sorted
}

// Logged counts what happened to the requests that are replayed.
func (l *Log) Logged() Logged {
	out := Logged{Calls: len(l.journeys)}
	for _, j := range l.journeys {
		out.Attempts += len(j.Attempts)
		if j.Code != "" {
			continue
		}
		out.Answered++
		first := j.Committed
		if first.IsZero() {
			first = j.EndedAt
		}
		out.First = append(out.First, first.Sub(j.At))
	}
	slices.Sort(out.First)
	return out
}

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"spillway/internal/catalog"
	"spillway/internal/gateway"
	"spillway/internal/httpapi"
	"spillway/internal/plan"
	"spillway/internal/protocol"
	"spillway/internal/protocol/families"
)

// Bounds of fetching a provider's own list of models.
const (
	listWait  = 3 * time.Second // a request waits no longer for it
	listBytes = 8 << 20
)

// Complete implements httpapi.Lists: it asks the providers whose models are not known for their own lists, at most one
// request per provider at a time, and returns the snapshot that knows them. When nothing is to be asked, or nothing
// answers in time, the snapshot stays as it is.
func (a *App) Complete(ctx context.Context, s *httpapi.Snapshot) *httpapi.Snapshot {
	var claimed []*gateway.Provider
	for _, p := range s.Board.Snapshot.Unlisted() {
		if a.lists.Claim(p, time.Now()) {
			claimed = append(claimed, p)
		}
	}
	if len(claimed) == 0 {
		return a.live.Load()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listWait)
	defer cancel()
	var wg sync.WaitGroup
	for _, p := range claimed {
		wg.Go(func() {
			models, err := a.fetchList(ctx, s.Board.Snapshot, p)
			if err != nil {
				a.log.Info("a provider's list of models cannot be had", "provider", p.ID, "err", err.Error())
			}
			a.lists.Record(p, models, err == nil, time.Now())
		})
	}
	wg.Wait()
	return a.relist()
}

// relist puts every known list into the snapshot in force.
func (a *App) relist() *httpapi.Snapshot {
	for {
		old := a.live.Load()
		next := *old
		next.Board = plan.NewBoard(a.lists.Apply(old.Board.Snapshot), a.rooms)
		if a.live.CompareAndSwap(old, &next) {
			return &next
		}
	}
}

func (a *App) fetchList(ctx context.Context, s *catalog.Snapshot, p *gateway.Provider) ([]gateway.ModelID, error) {
	conns := s.Connections(p.ID)
	if len(conns) == 0 {
		return nil, fmt.Errorf("no connection")
	}
	conn := conns[0]
	speaks := p.Protocols[0]
	u, err := url.Parse(listURL(p.BaseURL, speaks))
	if err != nil {
		return nil, err
	}
	h := http.Header{"Accept": {"application/json"}, "User-Agent": {"spillway/" + Version}}
	for name, value := range p.Headers {
		h.Set(name, value)
	}
	families.For(speaks).Authorize(h, gateway.Candidate{Connection: conn}, conn.Credential.Value())
	rt, err := a.sender.For(conn)
	if err != nil {
		return nil, err
	}
	req := (&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: h, ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	res, err := rt.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", u.Path, res.Status)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, listBytes))
	if err != nil {
		return nil, err
	}
	return readList(body)
}

func listURL(base string, p gateway.Protocol) string {
	switch {
	case p == gateway.Gemini && !protocol.PathEnds(base, "/v1beta") && !protocol.PathEnds(base, "/v1"):
		return protocol.JoinURL(base, "/v1beta/models", "")
	case p == gateway.Anthropic && !protocol.PathEnds(base, "/v1"):
		return protocol.JoinURL(base, "/v1/models", "")
	}
	return protocol.JoinURL(base, "/models", "")
}

// readList reads a list of models in the form of OpenAI and Anthropic (data[].id) or of Gemini (models[].name).
func readList(body []byte) ([]gateway.ModelID, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("not a list of models: %w", err)
	}
	var out []gateway.ModelID
	for _, m := range list.Data {
		if m.ID != "" {
			out = append(out, gateway.ModelID(m.ID))
		}
	}
	for _, m := range list.Models {
		if name := strings.TrimPrefix(m.Name, "models/"); name != "" {
			out = append(out, gateway.ModelID(name))
		}
	}
	return out, nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"spillway/internal/config"
	"spillway/internal/route/strategy"
)

type explainCmd struct {
	ID    string `arg:"" help:"Request id, from the response header x-spillway-request-id."`
	URL   string `help:"Address of the running gateway. Default: http:// and the listen address of the configuration." placeholder:"URL"`
	Token string `help:"Management token, printed once at the first start, or a client key with scope management. Needed where client keys are configured. Better given as an environment variable." env:"SPILLWAY_TOKEN" placeholder:"TOKEN"`
	JSON  bool   `help:"Print the decision log as JSON."`
}

// Run asks the running gateway for one decision log and prints it.
func (e *explainCmd) Run(ctx context.Context, c *cli, o *out) error {
	base := e.URL
	if base == "" {
		cfg, err := config.Load(config.Source{Path: c.Config, Strategies: strategy.Names(), Context: ctx})
		if err != nil {
			return err
		}
		base = "http://" + cfg.Listen
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base, "/")+"/api/requests/"+url.PathEscape(e.ID), nil)
	if err != nil {
		return err
	}
	if !e.JSON {
		req.Header.Set("Accept", "text/plain")
	}
	if e.Token != "" {
		req.Header.Set("Authorization", "Bearer "+e.Token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("no gateway answers at %s: %w (start it with spillway serve, or name it with --url)", base, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return e.refused(res)
	}
	_, err = io.Copy(o, res.Body)
	return err
}

// refused says in words what the gateway answered instead of a decision log.
func (e *explainCmd) refused(res *http.Response) error {
	if e.Token == "" && (res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden) {
		return errors.New("the decision log needs the management token: set SPILLWAY_TOKEN to what the gateway printed at its first start")
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10)) // whatever came explains best
	var problem struct{ Code, Detail, Next string }
	if err := json.Unmarshal(text, &problem); err != nil || problem.Detail == "" {
		return fmt.Errorf("the gateway answered %s: %s", res.Status, strings.TrimSpace(string(text)))
	}
	return fmt.Errorf("%s: %s (%s)", problem.Code, problem.Detail, strings.TrimSuffix(problem.Next, "."))
}

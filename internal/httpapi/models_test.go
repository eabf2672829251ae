package httpapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"spillway/internal/gateway"
)

// TestModelsInTheCallersDialect: one list, in the form that each protocol's SDK reads.
func TestModelsInTheCallersDialect(t *testing.T) {
	u := newUpstream(t, nil)
	h, _ := serve(t, provider(u)+"combos:\n  - {name: smart, targets: [up/m]}\n  - {name: text-embedder, targets: [up/m]}\n")
	version := []string{"anthropic-version", "2023-06-01"}
	goog := []string{"x-goog-api-key", "k"}
	type list struct {
		Object  string
		Data    []struct{ ID, Type, Object, Display_Name, Created_At string }
		HasMore *bool   `json:"has_more"`
		FirstID *string `json:"first_id"`
		LastID  *string `json:"last_id"`
		Models  []struct {
			Name    string
			Methods []string `json:"supportedGenerationMethods"`
		}
	}
	get := func(path string, header []string) (l list) {
		t.Helper()
		r := ask(h, "GET", path, "", header...)
		body := bodyOf(t, r)
		if err := json.Unmarshal([]byte(body), &l); err != nil || r.StatusCode != 200 {
			t.Fatalf("%s: %d %s", path, r.StatusCode, body)
		}
		return l
	}
	for _, root := range []string{"", "/api"} {
		l := get(root+"/v1/models", nil)
		if l.Object != "list" || len(l.Data) < 4 || l.Data[0].Object != "model" || l.HasMore != nil || l.Models != nil {
			t.Errorf("openai: %+v", l)
		}
		l = get(root+"/v1/models?limit=2", version)
		if l.HasMore == nil || *l.HasMore || *l.FirstID != l.Data[0].ID || *l.LastID != l.Data[len(l.Data)-1].ID || len(l.Data) < 4 ||
			l.Data[0].Type != "model" || l.Data[0].Display_Name == "" || l.Data[0].Created_At == "" || l.Object != "" {
			t.Errorf("anthropic: %+v", l)
		}
		for _, path := range []string{"/v1beta/models", "/v1beta/models?pageSize=1", "/v1/models"} {
			l = get(root+path, goog)
			if len(l.Models) < 4 || l.Data != nil {
				t.Errorf("gemini at %s: %+v", path, l)
			}
			for _, m := range l.Models {
				embeds := slices.Contains(m.Methods, "embedContent")
				if !strings.HasPrefix(m.Name, "models/") || embeds != (m.Name == "models/text-embedder") || embeds == slices.Contains(m.Methods, "generateContent") {
					t.Errorf("gemini: %+v", m)
				}
			}
		}
	}
	var one struct{ ID, Type, Object, Name string }
	for _, row := range []struct {
		path   string
		header []string
		want   string
	}{{"/v1/models/up/m", nil, "/model/up/m"}, {"/v1/models/m", version, "model//m"}, {"/v1beta/models/m", nil, "models/m"}, {"/v1/models/m", goog, "models/m"}} {
		one.ID, one.Type, one.Object, one.Name = "", "", "", ""
		r := ask(h, "GET", row.path, "", row.header...)
		if err := json.Unmarshal([]byte(bodyOf(t, r)), &one); err != nil || r.StatusCode != 200 {
			t.Errorf("%s: %d %v", row.path, r.StatusCode, err)
		}
		if got := one.Name; got == "" && one.Type+"/"+one.Object+"/"+one.ID != row.want || got != "" && got != row.want {
			t.Errorf("%s: %+v", row.path, one)
		}
		missing := strings.TrimSuffix(row.path, "m") + "nobody"
		if row.path != "/v1/models/up/m" {
			if r := ask(h, "GET", missing, "", row.header...); r.StatusCode != 404 {
				t.Errorf("%s: %d", missing, r.StatusCode)
			}
		}
		if r := ask(h, "HEAD", row.path, "", row.header...); r.StatusCode != 200 {
			t.Errorf("HEAD %s: %d", row.path, r.StatusCode)
		}
	}
}

// TestNoModels: an empty list is a list in every dialect.
func TestNoModels(t *testing.T) {
	h, _ := serve(t, withKeys(provider(newUpstream(t, nil))))
	for path, want := range map[string]string{"/v1/models": `"data":[`, "/v1beta/models": `"models":[`} {
		for _, version := range []string{"", "2026-10-21"} {
			r := ask(h, "GET", path, "", "anthropic-version", version, "X-Api-Key", narrow)
			if body := bodyOf(t, r); r.StatusCode != 200 || version == "" && !strings.Contains(body, want) {
				t.Errorf("%s: %d %s", path, r.StatusCode, body)
			}
		}
	}
}

// TestRootWithoutAKey: agents look whether anybody is there before they send anything, and have no key for that.
func TestRootWithoutAKey(t *testing.T) {
	h, _ := serve(t, withKeys(provider(newUpstream(t, nil))))
	for _, method := range []string{"HEAD", "GET"} {
		r := do(h, request(method, "/", http.NoBody, "Content-Type", ""))
		if r.StatusCode >= 500 {
			t.Errorf("%s /: %d", method, r.StatusCode)
		}
	}
}

// TestBothVersionsOfAnthropic: what the two generations of SDKs send goes through: the version and the betas as the client
// named them, the key where that version has it, and ?beta=true means nothing.
func TestBothVersionsOfAnthropic(t *testing.T) {
	u := newUpstream(t, answers)
	h, _ := serve(t, withKeys(provider(u)))
	for _, row := range []struct{ version, header, value, upstream, secret string }{
		{"2023-06-01", "X-Api-Key", dev, "X-Api-Key", "key-of-the-owner"},
		{"2026-10-21", "Authorization", "Bearer " + dev, "Authorization", "Bearer key-of-the-owner"},
		{"2023-06-01", "Authorization", "Bearer " + dev, "X-Api-Key", "key-of-the-owner"},
	} {
		for _, path := range []string{"/v1/messages?beta=true", "/v1/messages", "/v1/messages/count_tokens?beta=true"} {
			r := ask(h, "POST", path, calls[gateway.Anthropic].body, "Anthropic-Version", row.version, row.header, row.value,
				"Anthropic-Beta", "context-management-2025-06-27,some-new-beta")
			if r.StatusCode != 200 {
				t.Fatalf("%+v %s: %d %s", row, path, r.StatusCode, bodyOf(t, r))
			}
			got := u.last(t)
			if got.Header.Get("Anthropic-Version") != row.version || got.Header.Get("Anthropic-Beta") != "context-management-2025-06-27,some-new-beta" ||
				got.Header.Get(row.upstream) != row.secret || got.URL.RawQuery != "" {
				t.Errorf("%+v %s: %s %v", row, path, got.URL, got.Header)
			}
			if row.upstream == "X-Api-Key" && got.Header.Get("Authorization") != "" {
				t.Errorf("%+v: two keys go upstream", row)
			}
		}
	}
}

// TestKeysFromEveryHeader: every client puts its key where its SDK does, whatever it calls.
func TestKeysFromEveryHeader(t *testing.T) {
	u := newUpstream(t, answers)
	h, _ := serve(t, withKeys(provider(u)))
	asked := map[string][2]string{"models": {"/v1beta/models", ""}}
	for p, c := range calls {
		asked[p.String()] = [2]string{c.path, c.body}
	}
	for name, o := range others("m") {
		if o.kind == "application/json" {
			asked[name] = [2]string{o.path, o.body}
		}
	}
	for name, call := range asked {
		method := "POST"
		if call[1] == "" {
			method = "GET"
		}
		for _, key := range [][2]string{{"Authorization", "Bearer " + dev}, {"X-Api-Key", dev}, {"X-Goog-Api-Key", dev}} {
			if r := ask(h, method, call[0], call[1], key[0], key[1]); r.StatusCode != 200 {
				t.Errorf("%s, %s: %d %s", name, key[0], r.StatusCode, bodyOf(t, r))
			}
		}
		if r := ask(h, method, call[0]+"?key="+dev, call[1]); r.StatusCode != 200 {
			t.Errorf("%s, ?key=: %d", name, r.StatusCode)
		}
		if r := ask(h, method, call[0], call[1]); r.StatusCode != 401 {
			t.Errorf("%s without a key: %d", name, r.StatusCode)
		}
	}
}

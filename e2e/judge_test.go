package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// seen is what a script reports of one call. With a tool call both requests of the round trip are in it, added up.
type seen struct {
	Check      string   `json:"check"`
	Text       string   `json:"text"`
	Finish     []string `json:"finish"`
	Ended      int      `json:"ended"`  // ends that came: finish reasons, terminal events
	Late       int      `json:"late"`   // content or events behind the end
	Usages     int      `json:"usages"` // times that usage was told
	Prompt     int      `json:"prompt_tokens"`
	Completion int      `json:"completion_tokens"`
	Total      int      `json:"total_tokens"`
	IDs        int      `json:"ids"` // different ids of answers
	Tools      []tool   `json:"tools"`
	Models     []string `json:"models"`
	Vectors    []int    `json:"vectors"` // dimensions of the embeddings
	Error      *failure `json:"error"`
}

type tool struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type failure struct {
	Class   string `json:"class"`
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// What the lab's answers cost.
const (
	textTokens = 60
	toolTokens = 12
)

// judge compares what was seen with what was wanted and returns everything that is wrong.
func judge(c call, s seen, k sdk) []string {
	var bad []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Sprintf(format, args...))
		}
	}
	w := c.want
	if w.raises != "" {
		return judgeFailure(c, s, k)
	}
	if s.Error != nil {
		return []string{fmt.Sprintf("raised %s (status %d, code %q): %s", s.Error.Class, s.Error.Status, s.Error.Code, s.Error.Message)}
	}
	switch c.Do {
	case "count":
		check(s.Prompt > 0, "no tokens were counted")
		return bad
	case "embed":
		check(len(s.Vectors) == w.vectors && !slices.Contains(s.Vectors, 0), "embeddings have the dimensions %d, must be %d of them", s.Vectors, w.vectors)
		return bad
	case "list", "model":
		for _, m := range w.models {
			check(slices.Contains(s.Models, m), "models %q lack %q", s.Models, m)
		}
		check(!slices.Contains(s.Models, "secret"), "models %q hold one that the key may not use", s.Models)
		return bad
	}
	text, call := k.finish(c.API)
	finish, legs, completion := []string{text}, 1, textTokens
	if w.tool {
		finish, legs, completion = []string{call, text}, 2, textTokens+toolTokens
	}
	check(s.Text == w.text, "text is %q, must be %q", s.Text, w.text)
	check(slices.Equal(s.Finish, finish), "finish is %q, must be %q", s.Finish, finish)
	check(s.Ended == legs, "%d ends for %d requests", s.Ended, legs)
	check(s.Late == 0, "%d events behind the end", s.Late)
	check(s.IDs == legs, "%d different ids in %d answers", s.IDs, legs)
	if w.tool {
		check(len(s.Tools) == 1 && s.Tools[0].Name == "weather" && s.Tools[0].ID != "" && city(s.Tools[0].Arguments),
			"tool calls are %+v, must be one of weather with a city", s.Tools)
	} else {
		check(len(s.Tools) == 0, "tool calls %+v came unasked", s.Tools)
	}
	usages := legs
	if k.asksUsage && c.API == "chat" && c.Stream && !c.Usage {
		usages, completion = 0, 0
	}
	check(s.Usages == usages, "usage came %d times, must be %d", s.Usages, usages)
	check(s.Completion == completion, "%d completion tokens, must be %d", s.Completion, completion)
	check(s.Total == s.Prompt+s.Completion, "total tokens %d are not %d + %d", s.Total, s.Prompt, s.Completion)
	check((s.Prompt > 0) == (usages > 0), "%d prompt tokens", s.Prompt)
	return bad
}

func city(arguments string) bool {
	var a struct{ City string }
	return json.Unmarshal([]byte(arguments), &a) == nil && a.City != ""
}

func judgeFailure(c call, s seen, k sdk) []string {
	w := c.want
	if s.Error == nil {
		return []string{fmt.Sprintf("nothing was raised, must be %s; text %q, finish %q", k.class(w.raises, c.API), s.Text, s.Finish)}
	}
	var bad []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Sprintf(format, args...))
		}
	}
	e := s.Error
	class, statuses := k.class(w.raises, c.API), []int{w.status}
	switch {
	case w.broken && k.inStream != nil:
		statuses = k.inStream
	case w.status == 0 && k.noStatus != nil:
		statuses = k.noStatus
	}
	check(e.Class == class, "raised %s, must be %s", e.Class, class)
	check(slices.Contains(statuses, e.Status), "status is %d, must be one of %d", e.Status, statuses)
	check(strings.Contains(e.Message, w.says), "message lacks %q", w.says)
	check(w.raises == "connection" || e.Message != "", "the error says nothing")
	if !w.broken {
		check(s.Text == "" && s.Ended == 0, "text %q and %d ends came before the error", s.Text, s.Ended)
	} else {
		check(s.Text != "" && strings.HasPrefix(w.text, s.Text) && s.Text != w.text, "text %q is not a beginning of %q", s.Text, w.text)
		check(s.Ended == 0, "%d ends of a stream that broke (%q)", s.Ended, s.Finish)
		check(s.Late == 0, "%d events behind the end", s.Late)
	}
	if len(bad) > 0 {
		bad = append(bad, fmt.Sprintf("the error: %+v", *e))
	}
	return bad
}

// TestJudge makes sure that the judge can say no.
func TestJudge(t *testing.T) {
	c := call{Do: "generate", API: "chat", Stream: true, Usage: true, want: want{text: "a b c"}}
	good := seen{Text: "a b c", Finish: []string{"stop"}, Ended: 1, IDs: 1, Usages: 1, Prompt: 5, Completion: 60, Total: 65}
	if bad := judge(c, good, openAI(jsNames)); len(bad) > 0 {
		t.Errorf("a good answer: %q", bad)
	}
	for name, spoil := range map[string]func(*seen){
		"short":        func(s *seen) { s.Text = "a b" },
		"doubled":      func(s *seen) { s.Text = "a b b c" },
		"two ends":     func(s *seen) { s.Ended, s.Finish = 2, []string{"stop", "stop"} },
		"no end":       func(s *seen) { s.Ended, s.Finish = 0, nil },
		"behind":       func(s *seen) { s.Late = 1 },
		"mixed":        func(s *seen) { s.IDs = 2 },
		"no usage":     func(s *seen) { s.Usages, s.Prompt, s.Completion, s.Total = 0, 0, 0, 0 },
		"odd usage":    func(s *seen) { s.Total = 70 },
		"raised":       func(s *seen) { s.Error = &failure{Class: "APIError"} },
		"unasked tool": func(s *seen) { s.Tools = []tool{{Name: "weather"}} },
	} {
		s := good
		spoil(&s)
		if len(judge(c, s, openAI(jsNames))) == 0 {
			t.Errorf("%s: the judge has nothing to say", name)
		}
	}
	c.want = want{raises: "in_stream", broken: true, text: "a b c"}
	cut := seen{Text: "a b", Error: &failure{Class: "APIError", Message: "cut"}}
	if bad := judge(c, cut, openAI(jsNames)); len(bad) > 0 {
		t.Errorf("a good failure: %q", bad)
	}
	for name, spoil := range map[string]func(*seen){
		"nothing raised": func(s *seen) { s.Error = nil },
		"other class":    func(s *seen) { s.Error = &failure{Class: "InternalServerError", Message: "cut"} },
		"foreign text":   func(s *seen) { s.Text = "x" },
		"whole text":     func(s *seen) { s.Text = "a b c" },
		"clean end":      func(s *seen) { s.Ended = 1 },
	} {
		s := cut
		spoil(&s)
		if len(judge(c, s, openAI(jsNames))) == 0 {
			t.Errorf("failure, %s: the judge has nothing to say", name)
		}
	}
}

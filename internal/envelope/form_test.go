package envelope

import (
	"bytes"
	"io"
	"mime/multipart"
	"strings"
	"testing"

	"spillway/internal/gateway"
)

// formOf is a form with a file before and behind the model, as SDKs send it.
func formOf(t testing.TB, model string, file []byte) (body []byte, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	put := func(name string, data []byte) {
		part, err := w.CreateFormFile(name, "a.wav")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = part.Write(data)
	}
	put("file", file)
	if err := w.WriteField("model", model); err != nil {
		t.Fatal(err)
	}
	_ = w.WriteField("prompt", "")
	put("mask[]", file)
	_ = w.Close()
	return b.Bytes(), w.FormDataContentType()
}

// TestForm: only the model's text changes on the way upstream, whatever the files hold, and the boundary stays.
func TestForm(t *testing.T) {
	files := [][]byte{nil, []byte("RIFF\x00\xff"), []byte("\r\n--"), []byte("\r\n\r\n"), []byte("name=\"model\"\r\n\r\nother")}
	for _, file := range files {
		body, ct := formOf(t, "whisper-1", file)
		e, gerr := DecodeForm(body, ct, Options{Operation: gateway.Transcribe})
		if gerr != nil {
			t.Fatalf("%q: %v", file, gerr)
		}
		if e.Model != "whisper-1" || e.FormType != ct || e.Operation != gateway.Transcribe || e.Stream {
			t.Errorf("%+v", e)
		}
		same := Apply(e, Edit{Model: "whisper-1"})
		if !bytes.Equal(same.Bytes(), body) {
			t.Error("the same model changes the body")
		}
		b := Apply(e, Edit{Model: "large-v3"})
		want, _ := formOf(t, "large-v3", file)
		_, boundary, _ := strings.Cut(ct, "boundary=")
		got := bytes.ReplaceAll(b.Bytes(), []byte(boundary), []byte("B"))
		if _, other, _ := bytes.Cut(want, []byte("--")); !bytes.Equal(got, bytes.ReplaceAll(want, other[:len(boundary)], []byte("B"))) {
			t.Errorf("%q: %q", file, got)
		}
	}
}

// TestFormOfOddShape: line breaks, padding and a preamble that RFC 2046 allows.
func TestFormOfOddShape(t *testing.T) {
	const ct = "multipart/form-data; boundary=x"
	for name, c := range map[string]struct{ body, model string }{
		"preamble":            {"hello\r\n--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x--\r\n", "m"},
		"padding":             {"--x \t\r\ncontent-disposition:form-data;name=model\r\n\r\nm\r\n--x--", "m"},
		"boundary as a begin": {"--x\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n--xy\r\n--x\r\nContent-Disposition: form-data; name=\"model\"\r\nContent-Type: text/plain\r\n\r\nm\r\n--x--", "m"},
		"a file called model": {"--x\r\nContent-Disposition: form-data; name=\"model\"; filename=\"model\"\r\n\r\nbytes\r\n--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x--", "m"},
		"an empty part":       {"--x\r\n\r\n\r\n--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x--", "m"},
		"no end":              {"--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm", ""},
		"no part":             {"--x--", ""},
		"nothing":             {"", ""},
		"another boundary":    {"--y\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--y--", ""},
		"twice":               {"--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nn\r\n--x--", ""},
		"empty":               {"--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n\r\n--x--", ""},
		"two lines":           {"--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\nn\r\n--x--", ""},
		"careless file name":  {"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=my file.wav\r\n\r\nbytes\r\n--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x--", "m"},
		"endless headers":     {"--x\r\nA: " + strings.Repeat("b", 9<<10) + "\r\n\r\nm\r\n--x--", ""},
	} {
		e, gerr := DecodeForm([]byte(c.body), ct, Options{})
		switch {
		case c.model == "" && (gerr == nil || gerr.Code != gateway.InvalidRequest):
			t.Errorf("%s: %+v %v", name, e, gerr)
		case c.model != "" && (gerr != nil || e.Model != c.model):
			t.Errorf("%s: %+v %v", name, e, gerr)
		}
	}
	for _, bad := range []string{"", "multipart/form-data", "application/json", "multipart/mixed; boundary=x", "multipart/form-data; boundary"} {
		if _, gerr := DecodeForm([]byte("--x--"), bad, Options{}); gerr == nil {
			t.Errorf("content type %q is taken", bad)
		}
	}
}

// FuzzForm: no form breaks the reader, and the library's reader finds the same model in whatever is taken.
func FuzzForm(f *testing.F) {
	f.Add([]byte("--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x--\r\n"))
	f.Add([]byte("--x \r\n\r\n\r\n--x--"))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, gerr := DecodeForm(body, "multipart/form-data; boundary=x", Options{})
		if gerr != nil {
			return
		}
		b := Apply(e, Edit{Model: "another"})
		r := multipart.NewReader(bytes.NewReader(b.Bytes()), "x")
		for {
			p, err := r.NextRawPart()
			if err != nil {
				return // the library is stricter about headers
			}
			text, err := io.ReadAll(p)
			if err == nil && p.FormName() == "model" && p.FileName() == "" && string(text) != "another" {
				t.Fatalf("%q: the library reads the model %q", body, text)
			}
		}
	})
}

// TestRepeatedModel: Gemini's batch requests name the model of the path again, and upstreams compare.
func TestRepeatedModel(t *testing.T) {
	for _, c := range []struct {
		op   gateway.Operation
		body string
		want string
	}{
		{gateway.BatchEmbed, `{ "requests" : [ {"model": "models/e","content":{"model":"e"}} , {"content":1,"model":"e"},{},{"model":7},{"model":"other"} ] }`,
			`{ "requests" : [ {"model": "models/real","content":{"model":"e"}} , {"content":1,"model":"real"},{},{"model":7},{"model":"other"} ] }`},
		{gateway.Embed, `{"model":"models/e","content":{}}`, `{"model":"models/real","content":{}}`},
		{gateway.CountTokens, `{"generateContentRequest":{"contents":[],"model":"models/e"}}`, `{"generateContentRequest":{"contents":[],"model":"models/real"}}`},
		{gateway.BatchEmbed, `{"requests":[]}`, `{"requests":[]}`},
		{gateway.BatchEmbed, `{"requests":{"model":"e"}}`, `{"requests":{"model":"e"}}`},
		{gateway.Generate, `{"model":"e","contents":[]}`, `{"model":"real","contents":[]}`},
	} {
		e, gerr := Decode([]byte(c.body), Options{Protocol: gateway.Gemini, Operation: c.op, Model: "e"})
		if gerr != nil {
			t.Fatal(gerr)
		}
		same, other := Apply(e, Edit{Model: "e"}), Apply(e, Edit{Model: "real"})
		if string(same.Bytes()) != c.body || string(other.Bytes()) != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.body, other.Bytes(), c.want)
		}
	}
}

// TestModerationWithoutModel: it has the API's own default, which is written into the body only when it is to be another.
func TestModerationWithoutModel(t *testing.T) {
	for body, want := range map[string]string{
		`{"input":"x"}`:             `{"model":"mine","input":"x"}`,
		` { }`:                      ` {"model":"mine" }`,
		`{"model":"m","input":"x"}`: `{"model":"mine","input":"x"}`,
	} {
		e, gerr := Decode([]byte(body), Options{Operation: gateway.Moderate})
		if gerr != nil {
			t.Fatal(gerr)
		}
		same, other := Apply(e, Edit{Model: e.Model}), Apply(e, Edit{Model: "mine"})
		if string(same.Bytes()) != body || string(other.Bytes()) != want {
			t.Errorf("%s: %s, %s", body, same.Bytes(), other.Bytes())
		}
	}
	if _, gerr := Decode([]byte(`{"input":"x"}`), Options{Operation: gateway.Embed}); gerr == nil {
		t.Error("an embedding without a model is taken")
	}
}

// TestStreamOfPassedOn: what is passed on whole is no stream to the gateway, whatever the body says.
func TestStreamOfPassedOn(t *testing.T) {
	for op, want := range map[gateway.Operation]bool{gateway.Generate: true, gateway.Complete: true, gateway.MakeImage: false, gateway.Embed: false} {
		if e, gerr := Decode([]byte(`{"model":"m","stream":true}`), Options{Operation: op}); gerr != nil || e.Stream != want {
			t.Errorf("%s: %+v %v", op, e, gerr)
		}
	}
}

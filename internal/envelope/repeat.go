package envelope

import (
	"strings"

	"spillway/internal/gateway"
)

// repeats notes where a value that begins at v, and was found to be JSON, names the model of the path once more:
// requests[].model of batchEmbedContents and generateContentRequest.model of countTokens.
func (d *decoder) repeats(name []byte, v int) {
	switch string(name) {
	case "generateContentRequest":
		d.modelIn(v)
	case "requests":
		if d.b[v] != '[' {
			return
		}
		i := d.space(v + 1)
		for more := d.b[i] != ']'; more; {
			d.modelIn(i)
			i, _ = d.value(i, 1)
			i, more, _ = d.separator(i, ']')
		}
	}
}

// modelIn notes the member model of the object that begins at i, if there is one.
func (d *decoder) modelIn(i int) {
	if d.b[i] != '{' {
		return
	}
	i = d.space(i + 1)
	for more := d.b[i] != '}'; more; {
		end, _ := d.str(i)
		name := d.b[i+1 : end-1]
		i = d.space(d.space(end) + 1) // behind the colon
		end, _ = d.value(i, 1)
		if string(name) == "model" && d.b[i] == '"' {
			d.env.Repeats = append(d.env.Repeats, gateway.Span{Start: i, End: end})
		}
		i, more, _ = d.separator(end, '}')
	}
}

// renamed replaces the repeated names of the path's model. A name that is another one stays: refusing that is the
// upstream's part.
func renamed(e *gateway.Envelope, model string) (cuts []Cut) {
	const prefix = "models/"
	for _, s := range e.Repeats {
		old, _ := text(e.Raw[s.Start:s.End])
		bare, hadPrefix := strings.CutPrefix(old, prefix)
		if bare != e.Model {
			continue
		}
		to := model
		if hadPrefix && !strings.Contains(model, "/") {
			to = prefix + model
		}
		cuts = append(cuts, Cut{s, quote(to)})
	}
	return cuts
}

package verdict

import "testing"

func TestBuiltin(t *testing.T) {
	r, err := Compile(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(len(r.rules))
}

package breaker

import (
	"flag"
	"os"
	"testing"
)

// TestMain makes the state-machine properties walk further than rapid's default, unless the command line says so.
func TestMain(m *testing.M) {
	flag.Parse()
	for name, value := range map[string]string{"rapid.steps": "200", "rapid.checks": "150"} {
		given := false
		flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
		if !given {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

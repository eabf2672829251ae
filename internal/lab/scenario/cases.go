package scenario

import (
	"errors"
	"fmt"
	"time"

	"spillway/internal/lab/fault"
)

// Case is one scenario of the failover suite: a primary that fails, a fallback, and the end that is right.
type Case struct {
	ID       string        `yaml:"id"`
	Model    string        `yaml:"model"` // asked for by the client, and how a shared primary knows the fault
	About    string        `yaml:"about"`
	Primary  Source        `yaml:"primary"`
	Fallback Source        `yaml:"fallback"`
	Requests int           `yaml:"requests"` // default 1
	Every    time.Duration `yaml:"every"`    // between the beginnings of requests
	Patience time.Duration `yaml:"patience"` // longer is a hang; default 60 s
	Expect   Expect        `yaml:"expect"`
}

// Expect is the right end and the conduct that is judged. Zero fields are not looked at, except ErrorStatus, whose
// zero means that the end is the complete right answer.
type Expect struct {
	ErrorStatus int    `yaml:"error_status"` // the end is the provider's own error, with this status
	ErrorText   string `yaml:"error_text"`   // and this text inside its message

	// Violations of these are advisory: the verdict is partial.
	Within      time.Duration `yaml:"within"`       // each request ends in this time
	Tail        time.Duration `yaml:"tail"`         // each ends this soon after its last content
	PrimaryMax  int           `yaml:"primary_max"`  // attempts on the primary
	FallbackMax *int          `yaml:"fallback_max"` // attempts on the fallback
	NotBefore   time.Duration `yaml:"not_before"`   // from the first attempt on the primary to its second
	DeadMax     int           `yaml:"dead_max"`     // attempts on the primary while it is down
	BackWithin  time.Duration `yaml:"back_within"`  // the primary serves again this soon after it is up
	NamesServed bool          `yaml:"names_served"` // the answer or its headers name the source that served, usage is its own

	// Above this many attempts on the primary (while it is down, if it is down for a time) it is hammering: fail.
	Hammering int `yaml:"hammering"`
}

// Failover returns the cases of the failover suite in their order.
func Failover() ([]Case, error) {
	b, err := shipped.ReadFile(suiteFile)
	if err != nil {
		return nil, err
	}
	return DecodeCases("failover.yaml", b)
}

// DecodeCases reads a list of cases. Each error begins with file:line.
func DecodeCases(file string, b []byte) ([]Case, error) {
	var in struct {
		Cases []Case `yaml:"cases"`
	}
	if err := decode(file, b, &in); err != nil {
		return nil, err
	}
	var errs []error
	ids := map[string]bool{}
	for i := range in.Cases {
		c := &in.Cases[i]
		c.fill()
		if c.ID == "" || c.Model == "" || ids[c.ID] || ids[c.Model] {
			errs = append(errs, fmt.Errorf("cases[%d].id: id and model must be given, once each", i))
		}
		ids[c.ID], ids[c.Model] = true, true
		for _, e := range Split(c.Primary.Validate()) {
			errs = append(errs, fmt.Errorf("cases[%d].primary.%w", i, e))
		}
		for _, e := range Split(c.Fallback.Validate()) {
			errs = append(errs, fmt.Errorf("cases[%d].fallback.%w", i, e))
		}
	}
	return in.Cases, locate(file, b, errors.Join(errs...))
}

func (c *Case) fill() {
	c.Requests = max(c.Requests, 1)
	if c.Patience == 0 {
		c.Patience = time.Minute
	}
	for _, s := range []*Source{&c.Primary, &c.Fallback} {
		if s.Latency == (Spread{}) {
			s.Latency = Between(20*time.Millisecond, 20*time.Millisecond)
		}
		if s.Interval == (Spread{}) {
			s.Interval = Between(5*time.Millisecond, 5*time.Millisecond)
		}
	}
	c.Primary.Name, c.Fallback.Name = "primary", "fallback"
}

// Down is the window in which the primary fails for a time, if it has one.
func (c Case) Down() (from, to time.Duration, ok bool) {
	for _, f := range c.Primary.Faults {
		if f.For > 0 && f.Kind != fault.Flap {
			return f.After, f.After + f.For, true
		}
	}
	return 0, 0, false
}

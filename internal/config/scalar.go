package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

func (d *decoder) decodeScalar(n *node, v reflect.Value, path string) {
	if !d.want(n, scalarNode, path, "") {
		return
	}
	if v.Type() == secretType {
		d.secrets = append(d.secrets, n.text)
		v.SetString(n.text)
		return
	}
	if tu, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if err := tu.UnmarshalText([]byte(n.text)); err != nil {
			d.unreadable(n, path, err)
		}
		return
	}
	switch {
	case v.Type() == durationType:
		d.duration(n, v, path)
	case v.Type() == sizeType:
		d.size(n, v, path)
	case v.Kind() == reflect.String:
		v.SetString(n.text)
	case v.Kind() == reflect.Bool:
		d.boolean(n, v, path)
	case v.CanInt() || v.CanUint() || v.CanFloat():
		d.number(n, v, path)
	default:
		d.problem(n.pos, path, "this field cannot be set here")
	}
}

// unreadable reports a value that a type refused, in the type's own words unless they could show a secret.
func (d *decoder) unreadable(n *node, path string, err error) {
	msg := err.Error()
	if n.expanded() {
		msg = "the value of " + shown(n) + " is not valid here"
	}
	d.problem(n.pos, path, "%s", mask(msg))
}

func (d *decoder) duration(n *node, v reflect.Value, path string) {
	dur, err := time.ParseDuration(n.text)
	switch {
	case err != nil && isNumber(n.text):
		d.problem(n.pos, path, "%s is a duration without a unit; write %ss, %sms or the like", shown(n), plainNumber(n), plainNumber(n))
	case err != nil:
		d.problem(n.pos, path, "%s is not a duration; write one like 500ms, 30s, 5m or 1h30m", shown(n))
	case dur < 0:
		d.problem(n.pos, path, "%s is negative; a duration is 0s or more", shown(n))
	default:
		v.SetInt(int64(dur))
	}
}

func (d *decoder) size(n *node, v reflect.Value, path string) {
	s, err := ParseSize(n.text)
	if err != nil {
		d.problem(n.pos, path, "%s is not a size; write one like 64MiB, 512KiB or 1GiB", shown(n))
		return
	}
	v.SetInt(int64(s))
}

func (d *decoder) boolean(n *node, v reflect.Value, path string) {
	if !n.quoted || n.expanded() {
		switch strings.ToLower(n.text) {
		case "true", "on":
			v.SetBool(true)
			return
		case "false", "off":
			v.SetBool(false)
			return
		}
	}
	d.problem(n.pos, path, "%s is not a switch; write true or false (on and off are read, too)", shown(n))
}

func (d *decoder) number(n *node, v reflect.Value, path string) {
	text := strings.ReplaceAll(n.text, "_", "")
	if n.quoted && !n.expanded() {
		d.problem(n.pos, path, "%s is text; write the number without quotes", shown(n))
		return
	}
	var err error
	switch {
	case v.CanFloat():
		var f float64
		if f, err = strconv.ParseFloat(text, 64); err == nil && f-f == 0 {
			v.SetFloat(f)
			return
		}
	case v.CanUint():
		var u uint64
		if u, err = strconv.ParseUint(text, 10, v.Type().Bits()); err == nil {
			v.SetUint(u)
			return
		}
	default:
		var i int64
		if i, err = strconv.ParseInt(text, 10, v.Type().Bits()); err == nil {
			v.SetInt(i)
			return
		}
	}
	what := "a whole number"
	if v.CanFloat() {
		what = "a number"
	}
	d.problem(n.pos, path, "%s is not %s", shown(n), what)
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

// plainNumber is the number for an example in a message; a fixed one when it came from the environment.
func plainNumber(n *node) string {
	if n.expanded() || len(n.raw) > 12 {
		return "30"
	}
	return n.raw
}

// Size is a number of bytes, written as 64MiB, 512KiB, 1GiB or a plain number.
type Size int64

// ParseSize reads a size; units are B, KiB, MiB, GiB and TiB.
func ParseSize(s string) (Size, error) {
	text, mult := strings.TrimSpace(s), int64(1)
	for unit, m := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40} {
		if cut, ok := strings.CutSuffix(text, unit); ok {
			text, mult = strings.TrimSpace(cut), m
		}
	}
	text = strings.TrimSuffix(text, "B")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/mult {
		return 0, fmt.Errorf("%q is not a size", s)
	}
	return Size(n * mult), nil
}

// String is the shortest exact form.
func (s Size) String() string {
	for _, u := range []struct {
		name string
		n    Size
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if s != 0 && s%u.n == 0 {
			return strconv.FormatInt(int64(s/u.n), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

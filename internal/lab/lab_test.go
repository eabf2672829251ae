package lab

import (
	"io"
	"log"
	"strconv"
)

var quiet = log.New(io.Discard, "", 0)

func itoa(n int) string { return strconv.Itoa(n) }

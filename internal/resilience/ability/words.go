package ability

import "strconv"

func plural(n int) string {
	if n == 1 {
		return "1 tool at most"
	}
	return strconv.Itoa(n) + " tools at most"
}

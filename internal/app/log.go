package app

import (
	"context"
	"log"
	"log/slog"
	"strings"
)

// serverLog turns net/http's own complaints into structured lines. Most are clients that left during a handshake.
func serverLog(l *slog.Logger) *log.Logger { return log.New(lineLogger{l}, "", 0) }

type lineLogger struct{ log *slog.Logger }

func (w lineLogger) Write(p []byte) (int, error) {
	w.log.LogAttrs(context.Background(), slog.LevelDebug, "http server", slog.String("msg", strings.TrimSpace(string(p))))
	return len(p), nil
}

// Package sse turns bytes into server-sent events and back. It answers one question: where does an event begin and
// end, and which bytes of it are its data. It follows the event stream rules of the WHATWG HTML standard (section
// "Interpreting an event stream"): LF, CR and CRLF end a line, a leading byte order mark is dropped, lines that begin
// with a colon are comments, several data lines are joined by LF, one space after the colon is dropped.
//
// The reader keeps the exact bytes of every event, so that an event can be passed on byte for byte, and hands out
// slices of its own buffer, so that an event costs no allocation. It is keyed by nothing: one reader, one stream.
//
// It never interprets the data, never reconnects, and has no clock: id and retry fields are part of the raw bytes and
// of nothing else.
package sse

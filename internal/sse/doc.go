// Package sse turns bytes into server-sent events and back.
package sse

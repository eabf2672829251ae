//go:build !unix

package upstream

import (
	"errors"
	"io"
	"net"
)

// alive cannot tell here; a connection that was closed is found out when the request is sent.
func alive(net.Conn) bool { return true }

func gone(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

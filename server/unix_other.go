//go:build !linux

package server

import (
	"errors"
	"net"
	"os"
)

const peersKnown = false

func peerUID(*net.UnixConn) (uint32, error)  { return 0, errors.ErrUnsupported }
func chmodSocket(uintptr, os.FileMode) error { return errors.ErrUnsupported }

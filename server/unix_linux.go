package server

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// peersKnown: the kernel says which user connects.
const peersKnown = true

// peerUID returns the user id that the process had when it connected
// (unix(7), SO_PEERCRED).
func peerUID(conn *net.UnixConn) (uid uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var got *syscall.Ucred
	failed := raw.Control(func(fd uintptr) {
		got, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err = errors.Join(failed, err); err != nil {
		return 0, err
	}
	return got.Uid, nil
}

// chmodSocket sets the permissions that the file of a socket will have.
func chmodSocket(fd uintptr, mode os.FileMode) error {
	return syscall.Fchmod(int(fd), uint32(mode.Perm()))
}

package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/writ-pdp/writ/snapshot"
)

var (
	errNotTLS     = errors.New("server: the handshake gave no TLS connection")
	errServerOnly = errors.New("server: these credentials are a server's")
)

// unixPeer is the address of the other end of a Unix-domain socket, which has
// no name of its own: it says whose the process is that connected.
type unixPeer struct{ user snapshot.Identity }

func (*unixPeer) Network() string  { return "unix" }
func (p *unixPeer) String() string { return "@" + p.user.Name }

// unixListener asks the kernel once for each connection whose it is. What it
// can't tell is nobody's.
type unixListener struct{ *net.UnixListener }

type unixConn struct {
	*net.UnixConn
	remote net.Addr
}

func (c *unixConn) RemoteAddr() net.Addr { return c.remote }

func (l *unixListener) Accept() (net.Conn, error) {
	conn, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	uid, err := peerUID(conn)
	if err != nil {
		return conn, nil
	}
	user, err := snapshot.UIDIdentity(uid)
	if err != nil {
		return conn, nil
	}
	return &unixConn{conn, &unixPeer{user}}, nil
}

// ListenUnix opens a Unix-domain socket at path that Serve takes for gRPC. The
// file has the permissions mode, which say who may connect at all. What an
// earlier start left there is removed if it is a socket on which nobody
// listens. Systems that can't tell who connects are an error.
func (s *Server) ListenUnix(path string, mode os.FileMode) (net.Listener, error) {
	if !peersKnown {
		return nil, errors.New("server: this system can't tell which user connects to a Unix-domain socket, as Linux can: leave it out")
	}
	if mode&^0o777 != 0 || mode&0o600 != 0o600 {
		return nil, fmt.Errorf("server: %04o is no mode of a socket that its owner can use: give one such as 0600 or 0660", mode)
	}
	dir, err := os.Stat(filepath.Dir(path))
	switch {
	case err != nil:
		return nil, fmt.Errorf("server: the directory of the socket %s must be there: %w", path, err)
	case dir.Mode()&0o002 != 0 && dir.Mode()&fs.ModeSticky == 0:
		return nil, fmt.Errorf("server: everybody may put another socket in place of %s: chmod o-w its directory, or choose another", path)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	// The permissions are there before the file is: nobody slips in between.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		return errors.Join(c.Control(func(fd uintptr) { err = chmodSocket(fd, mode) }), err)
	}}
	listener, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("server: cannot listen on the socket %s: %w", path, err)
	}
	if err := os.Chmod(path, mode); err != nil { // what the umask took away
		return nil, errors.Join(fmt.Errorf("server: the socket %s: %w", path, err), listener.Close())
	}
	socket, ok := listener.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("server: %s is no Unix-domain socket", path), listener.Close())
	}
	return &unixListener{socket}, nil
}

// removeStale removes a socket on which nobody listens any more, and nothing
// else.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("server: the socket %s: %w", path, err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("server: there is something at %s that is no socket: remove it, or choose another path", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close() // it has said what was asked
		return fmt.Errorf("server: somebody listens on the socket %s already: stop that server, or choose another path", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("server: there is a socket at %s, and it can't be told whether somebody listens on it: remove it, or choose another path: %w", path, err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("server: cannot remove the socket that an earlier start left: %w", err)
	}
	return nil
}

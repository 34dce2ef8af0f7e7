package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// identityFlags say how serve knows its callers, beside the secrets of each
// start.
type identityFlags struct {
	TLSCert        string `name:"tls-cert" help:"The server's certificate (PEM), with the CAs between it and its root. Re-read when it changes." env:"WRIT_TLS_CERT" placeholder:"FILE" group:"Who is asking"`
	TLSKey         string `name:"tls-key" help:"Its key (PEM), to which nobody else may write. Re-read with it." env:"WRIT_TLS_KEY" placeholder:"FILE" group:"Who is asking"`
	TLSClientCA    string `name:"tls-client-ca" help:"Trust bundle: the CAs (PEM) of callers' certificates. Re-read when it changes: certificates of a CA that is gone count no more at the next call." env:"WRIT_TLS_CLIENT_CA" placeholder:"FILE" group:"Who is asking"`
	UnixSocket     string `help:"Serve gRPC on a Unix-domain socket, too, where callers are known by their user id (Linux)." env:"WRIT_UNIX_SOCKET" placeholder:"PATH" group:"Who is asking"`
	UnixSocketMode string `help:"Permissions of that socket, octal: who may connect at all." default:"0600" env:"WRIT_UNIX_SOCKET_MODE" placeholder:"MODE" group:"Who is asking"`
}

// identityConfig is what the flags say.
type identityConfig struct {
	tls    *server.TLS // nil: plain text
	socket string      // path of the Unix-domain socket; empty: none
	mode   os.FileMode // of that
}

// open reads the files that the flags name.
func (f *identityFlags) open(log *slog.Logger) (identityConfig, error) {
	var out identityConfig
	switch {
	case (f.TLSCert == "") != (f.TLSKey == ""):
		return out, usage("--tls-cert and --tls-key belong together: name both files")
	case f.TLSClientCA != "" && f.TLSCert == "":
		return out, usage("--tls-client-ca needs the server's own certificate: add --tls-cert and --tls-key")
	}
	if f.UnixSocket != "" {
		mode, err := strconv.ParseUint(f.UnixSocketMode, 8, 32)
		if err != nil || mode > 0o777 {
			return out, usage("--unix-socket-mode is octal, such as 0600 or 0660")
		}
		path, err := filepath.Abs(f.UnixSocket)
		if err != nil {
			return out, err
		}
		out.socket, out.mode = path, os.FileMode(mode)
	}
	if f.TLSCert != "" {
		var err error
		if out.tls, err = server.OpenTLS(server.TLSConfig{CertFile: f.TLSCert, KeyFile: f.TLSKey, ClientCAFile: f.TLSClientCA, Log: log}); err != nil {
			return out, err
		}
	}
	return out, nil
}

// identities are the names by which the world in force knows its callers.
func identities(worlds *snapshot.Holder) func() map[snapshot.Identity]*writ.Caller {
	return func() map[snapshot.Identity]*writ.Caller {
		if world := worlds.Load(); world != nil {
			return world.Identities
		}
		return nil
	}
}

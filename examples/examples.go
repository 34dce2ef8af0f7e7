// Package examples holds the bundles that come with Writ, embedded, so that
// the command needs no files.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed lab hello accounts-payable filesystem github shop
var files embed.FS

// Lab is the bundle of the source text's lab: a file reader and a payment
// server.
func Lab() fs.FS { return sub("lab") }

// Hello is the smallest bundle: one server and one policy.
func Hello() fs.FS { return sub("hello") }

// AccountsPayable is a payment assistant as a finance team would run it: who
// pays whom, for what, how much and with whom, and whose word counts.
func AccountsPayable() fs.FS { return sub("accounts-payable") }

// Filesystem is the MCP project's filesystem server under six policies.
func Filesystem() fs.FS { return sub("filesystem") }

// GitHub is thirteen tools of GitHub's server: one organisation to read, a list
// of repositories to write, and people who agree to the rest.
func GitHub() fs.FS { return sub("github") }

// Shop is a shop's server whose carts are their customers' own, with groups
// from the identity provider and agents that may do less than who sent them.
func Shop() fs.FS { return sub("shop") }

func sub(name string) fs.FS {
	f, err := fs.Sub(files, name)
	if err != nil {
		// The names are constants of this file and embedded above.
		panic(err)
	}
	return f
}

// Package examples holds the bundles that come with Writ, embedded, so that
// the command needs no files.
package examples

import (
	"embed"
	"io/fs"
)

//go:embed lab hello
var files embed.FS

// Lab is the bundle of the source text's lab: a file reader and a payment
// server.
func Lab() fs.FS { return sub("lab") }

// Hello is the smallest bundle: one server and one policy.
func Hello() fs.FS { return sub("hello") }

func sub(name string) fs.FS {
	f, err := fs.Sub(files, name)
	if err != nil {
		// The names are constants of this file and embedded above.
		panic(err)
	}
	return f
}

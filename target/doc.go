// Package target writes what a call is aimed at in one normal form: POSIX
// paths, hosts, URLs and email addresses.
//
// A tool's argument is text that somebody chose, and the server that acts on
// it reads it with a parser of its own. Policies are safe only if both mean
// the same thing, so this package accepts a text if every careful reader
// agrees on what it names, and refuses it otherwise. It never guesses: ".."
// is not resolved, look-alike characters are not mapped, and user information
// is not cut off. Two accepted spellings of one resource
// have the same Text, and a Text read again is itself.
//
// Every error of this package means TARGET_OUT_OF_BOUNDS. Errors state the
// reason and what to do; they never repeat the argument.
//
// The package works on text alone. Symbolic links, DNS answers and redirects
// are the server's to mind.
package target

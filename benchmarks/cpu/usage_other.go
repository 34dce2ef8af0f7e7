//go:build !unix

package main

import (
	"errors"
	"time"
)

func cpu() (time.Duration, error) {
	return 0, errors.New("this operating system has no getrusage(2)")
}

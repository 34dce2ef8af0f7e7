package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// request is one call over HTTP/1.1.
func (f *flood) request(get bool, path, secret string, body []byte) []byte {
	var out bytes.Buffer
	method := http.MethodPost
	if get {
		method = http.MethodGet
	}
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, f.address)
	if secret != "" {
		fmt.Fprintf(&out, "Authorization: Bearer %s\r\n", secret)
	}
	if !get {
		fmt.Fprintf(&out, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	out.WriteString("\r\n")
	out.Write(body)
	return out.Bytes()
}

// replies does over HTTP/1.1 what listen does over HTTP/2.
func (f *flood) replies(in *bufio.Reader, places chan struct{}) {
	for {
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if r.StatusCode == http.StatusOK {
			f.answered.Add(1)
		}
		if !f.end(places) || r.Close {
			return
		}
	}
}

package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"golang.org/x/net/http2"
)

// hold holds connections that ask nothing until standard input ends.
func hold(address, protocol string, trusting bool, connections int) error {
	held := make([]net.Conn, 0, connections)
	for range connections {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		if trusting {
			conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		}
		held = append(held, conn)
		switch protocol {
		case "grpc":
			err = greet(conn)
		case "http":
			err = get(conn, address)
		default:
			err = fmt.Errorf("there is no protocol %q here", protocol)
		}
		if err != nil {
			return err
		}
	}
	fmt.Println(`{"held":`, len(held), `}`)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// greet speaks HTTP/2 until the server has answered.
func greet(conn net.Conn) error {
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return err
	}
	f := http2.NewFramer(conn, conn)
	if err := f.WriteSettings(); err != nil {
		return err
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return err
		}
		if settings, ok := frame.(*http2.SettingsFrame); ok && settings.IsAck() {
			return nil
		} else if ok {
			if err := f.WriteSettingsAck(); err != nil {
				return err
			}
		}
	}
}

// get asks for /healthz once.
func get(conn net.Conn, address string) error {
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: "+address+"\r\n\r\n"); err != nil {
		return err
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, r.Body)
	return err
}

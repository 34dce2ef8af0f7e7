package server

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// answer writes the answer to one request: vanguard's, or the door's own.
type answer struct {
	http.ResponseWriter
	request *http.Request
	maxAge  time.Duration // of a connection
	call    *httpCall     // nil: none was begun
	begun   bool          // the status has been written
}

// Unwrap lets vanguard find the Flusher below.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) Write(data []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	return a.ResponseWriter.Write(data)
}

// WriteHeader writes what all answers have in common.
func (a *answer) WriteHeader(status int) {
	if a.begun {
		return
	}
	a.begun = true
	header := a.Header()
	unread := a.request.Body != nil && a.request.Body != http.NoBody
	if a.call != nil {
		if own := a.call.status.Load(); own != 0 {
			status = int(own)
		}
		unread = unread && !a.call.whole.Load()
	}
	if status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer") // RFC 9110, section 11.6.1
	}
	made, known := a.request.Context().Value(connectedKey{}).(*connected)
	// net/http would read on before it sends the answer, which whoever sends
	// slowly need not be given.
	if unread && a.request.ProtoMajor == 1 || !known || time.Since(made.at) > a.maxAge {
		header.Set("Connection", "close")
	}
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	delete(header, "Date") // grpc-go leaves none out
	a.ResponseWriter.WriteHeader(status)
}

// json answers with a body of JSON.
func (a *answer) json(status int, body []byte) {
	a.Header().Set("Content-Type", "application/json")
	a.Header().Set("Content-Length", strconv.Itoa(len(body)))
	a.WriteHeader(status)
	_, _ = a.Write(body) // whoever is gone needs no answer
}

// The JSON of an error, as the Connect protocol has it and vanguard writes it
// (connectrpc.com/docs/protocol, section Error End-Stream).
type (
	wireError struct {
		Code    string       `json:"code"`
		Message string       `json:"message"`
		Details []wireDetail `json:"details"`
	}
	wireDetail struct {
		Type  string          `json:"type"`
		Value string          `json:"value"` // Protobuf in base64, for programs
		Debug json.RawMessage `json:"debug"` // the same for people
	}
)

// refuse answers with an error that has one ErrorInfo, as every error has.
func (a *answer) refuse(status int, r *refusal) {
	info := r.info()
	value, err := proto.Marshal(info)
	if err == nil {
		var debug, body []byte
		if debug, err = protojson.Marshal(info); err == nil {
			body, err = json.Marshal(wireError{
				Code:    strings.ToLower(code.Code(r.GRPCStatus().Code()).String()),
				Message: r.message,
				Details: []wireDetail{{string((&errdetails.ErrorInfo{}).ProtoReflect().Descriptor().FullName()), base64.RawStdEncoding.EncodeToString(value), debug}},
			})
		}
		if err == nil {
			a.json(status, body)
			return
		}
	}
	a.WriteHeader(http.StatusInternalServerError) // texts of ours that are not UTF-8: there are none
}

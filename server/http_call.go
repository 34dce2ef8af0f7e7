package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// httpCall is one HTTP request on its way to a gRPC method. Three goroutines
// meet in it: the HTTP server's, which writes the answer; grpc-go's reader,
// which wants the message; and the method's, which alone knows that the gate
// has let the call in. The request's body is read by the method's, and only
// then does the reader get it.
type httpCall struct {
	body    io.Reader
	length  int64 // of the body, as declared; -1: not declared
	limit   int   // of the body, in bytes
	timeout time.Duration
	timed   bool // the client asked for timeout
	control *http.ResponseController
	request context.Context // ends when the client is gone
	from    *connection     // who has sent it

	status  atomic.Int32  // of the answer, if it is another than the error's own; 0: it is not
	whole   atomic.Bool   // the body has been read to its end
	message *bytes.Reader // the method's until ready is closed, then the reader's
	ready   chan struct{}
	once    sync.Once // closes ready
}

type httpCallKey struct{}

// call hands a request over to vanguard, or says with which status and why it
// is refused. Only what vanguard or net/http would answer in other words, or
// overlook, is refused here; everything else is the gate's to judge.
func (d *httpDoor) call(a *answer, r *http.Request, method string) (int, *refusal) {
	if r.Method != http.MethodPost {
		a.Header().Set("Allow", http.MethodPost)
		return http.StatusMethodNotAllowed, refuse(ReasonMethodUnknown, "methods are called with POST")
	}
	if !isJSON(r.Header) {
		return http.StatusUnsupportedMediaType, refuse(ReasonMalformedRequest, "send the request message as Content-Type: application/json, in UTF-8, without Content-Encoding")
	}
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		return http.StatusBadRequest, refuse(ReasonMalformedRequest, "methods take no query: send everything in the body")
	}
	if v, sent := r.Header["Connect-Protocol-Version"]; sent && (len(v) != 1 || v[0] != "1") {
		return http.StatusBadRequest, refuse(ReasonMalformedRequest, "Connect-Protocol-Version is 1, or absent")
	}
	timeout, timed, ok := connectTimeout(r.Header["Connect-Timeout-Ms"])
	if !ok {
		return http.StatusBadRequest, refuse(ReasonMalformedRequest, "Connect-Timeout-Ms is a number of milliseconds, of at most 10 digits")
	}
	// A body that cannot be read ends the context of net/http's request, and
	// with it grpc-go would end the call unanswered. So the call ends with the
	// request only once its body is there; until then it ends by its deadline,
	// or when reading fails.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	c := &httpCall{
		body: r.Body, length: r.ContentLength, limit: d.server.limits.Message, timeout: timeout, timed: timed,
		control: http.NewResponseController(a.ResponseWriter), request: r.Context(), from: connectionOfHTTP(r), ready: make(chan struct{}),
	}
	defer context.AfterFunc(r.Context(), func() {
		if c.whole.Load() {
			cancel()
		}
	})()
	a.call = c
	d.handler.ServeHTTP(a, (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: method}, Host: r.Host, RemoteAddr: r.RemoteAddr, TLS: r.TLS,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		// Nothing else of the header is for gRPC.
		Header: http.Header{
			"Content-Type":             {"application/json"},
			"Connect-Protocol-Version": {"1"}, // without it vanguard takes JSON for REST
			"Authorization":            r.Header["Authorization"],
			"Traceparent":              r.Header["Traceparent"],
			"Tracestate":               r.Header["Tracestate"],
		},
		Body: c, ContentLength: -1,
	}).WithContext(context.WithValue(ctx, httpCallKey{}, c)))
	return 0, nil
}

// isJSON reports whether the header announces JSON in UTF-8, as it is.
func isJSON(h http.Header) bool {
	if coding := h["Content-Encoding"]; len(coding) > 1 || len(coding) == 1 && !strings.EqualFold(coding[0], "identity") {
		return false
	}
	kind := h["Content-Type"]
	if len(kind) != 1 {
		return false
	}
	media, params, err := mime.ParseMediaType(kind[0])
	if err != nil || media != "application/json" {
		return false
	}
	charset, named := params["charset"]
	return len(params) == 0 || len(params) == 1 && named && strings.EqualFold(charset, "utf-8")
}

// connectTimeout reads Connect-Timeout-Ms (connectrpc.com/docs/protocol): up
// to 10 ASCII digits.
func connectTimeout(values []string) (timeout time.Duration, timed, ok bool) {
	if len(values) == 0 {
		return 0, false, true
	}
	if len(values) > 1 || len(values[0]) > 10 || strings.Trim(values[0], "0123456789") != "" {
		return 0, false, false
	}
	ms, err := strconv.ParseInt(values[0], 10, 64)
	return time.Duration(ms) * time.Millisecond, true, err == nil
}

// unaryMethod puts the deadline before a gated method, and the body where the
// method asks for its message: behind the gate.
func (d *httpDoor) unaryMethod(path string, gated grpc.MethodHandler) grpc.MethodHandler {
	return func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		c, ok := ctx.Value(httpCallKey{}).(*httpCall)
		if !ok {
			return nil, errors.New("server: a call came in by no door")
		}
		defer c.release()
		ctx, cancel := d.server.withDeadline(ctx, path)
		defer cancel()
		if c.timed {
			ctx, cancel = context.WithTimeout(ctx, c.timeout)
			defer cancel()
		}
		return gated(srv, ctx, func(v any) error { return c.receive(ctx, decode, v) }, interceptor)
	}
}

// receive reads the body, then lets grpc-go receive it.
func (c *httpCall) receive(ctx context.Context, decode func(any) error, v any) error {
	in, ok := v.(*incoming)
	if !ok {
		return fmt.Errorf("server: a %T was to be received without the strict reader", v)
	}
	data, refused := c.readBody(ctx)
	if refused != nil {
		in.fault = refused
		return nil
	}
	c.message = bytes.NewReader(data)
	c.release()
	return decode(v)
}

// readBody reads the body to its end, or says why it cannot.
func (c *httpCall) readBody(ctx context.Context) ([]byte, *refusal) {
	if ctx.Err() != nil {
		return nil, refuse(ReasonDeadlineExceeded, "the deadline passed before the message was there")
	}
	tooLarge := refuse(ReasonMessageTooLarge, fmt.Sprintf("the request has more than %d bytes", c.limit))
	if c.length > int64(c.limit) {
		c.status.Store(http.StatusRequestEntityTooLarge)
		return nil, tooLarge
	}
	if at, ok := ctx.Deadline(); ok {
		_ = c.control.SetReadDeadline(at) // where there is none, ReadTimeout is not far
	}
	data, err := io.ReadAll(io.LimitReader(c.body, int64(c.limit)+1))
	switch {
	case len(data) > c.limit:
		c.status.Store(http.StatusRequestEntityTooLarge)
		return nil, tooLarge
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse(ReasonDeadlineExceeded, "the deadline passed before the message was there")
	case err != nil:
		return nil, refuse(ReasonMalformedRequest, "the body is cut off, or not framed as HTTP")
	}
	_ = c.control.SetReadDeadline(time.Time{}) // it would end the request while it is decided
	c.whole.Store(true)
	if c.request.Err() != nil {
		return nil, refuse(ReasonCanceled, "the call ended before the message was there")
	}
	return data, nil
}

// release lets the reader go on: to the message, or to the end of what will
// not come.
func (c *httpCall) release() {
	c.once.Do(func() { close(c.ready) })
}

// Read is grpc-go's reader's, through vanguard.
func (c *httpCall) Read(p []byte) (int, error) {
	<-c.ready
	if c.message == nil {
		return 0, io.EOF
	}
	return c.message.Read(p)
}

// Close is called while the reader may wait: what it waits for comes.
func (c *httpCall) Close() error { return nil }

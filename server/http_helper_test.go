package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// reply is what came back over HTTP.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// post sends a body to a method, with a secret unless it is empty; headers are
// further pairs, which win. A Host is set as the request's.
func (h *house) post(t testing.TB, secret, path string, body io.Reader, headers ...string) reply {
	t.Helper()
	r, err := h.tryPost(t.Context(), secret, path, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (h *house) tryPost(ctx context.Context, secret, path string, body io.Reader, headers ...string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+h.web+path, body)
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header[headers[i]] = append(req.Header[headers[i]], headers[i+1])
	}
	return do(&http.Client{Transport: h.transport}, req)
}

func do(client *http.Client, req *http.Request) (reply, error) {
	resp, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, data}, err
}

// decideJSON asks over HTTP as the host.
func (h *house) decideJSON(t testing.TB, p *writv1.Proposal) (*writv1.DecideResponse, reply) {
	t.Helper()
	body, err := protojson.Marshal(&writv1.DecideRequest{Proposal: p})
	if err != nil {
		t.Fatal(err)
	}
	r := h.post(t, h.host, decideMethod, bytes.NewReader(body))
	out := &writv1.DecideResponse{}
	if r.status == http.StatusOK {
		if err := protojson.Unmarshal(r.body, out); err != nil {
			t.Fatalf("the answer is no DecideResponse: %v: %s", err, r.body)
		}
	}
	return out, r
}

// aliveJSON fails the test unless both doors still answer.
func (h *house) aliveJSON(t testing.TB) {
	t.Helper()
	r, raw := h.decideJSON(t, &writv1.Proposal{RequestId: "still there"})
	if raw.status != http.StatusOK || r.GetDecision().GetOutcome() != writv1.Outcome_OUTCOME_DENY {
		t.Fatalf("the server no longer answers: %d %s", raw.status, raw.body)
	}
}

// wantRefused checks an error over HTTP: status, media type, the code of the
// Connect protocol, and the one ErrorInfo, in both of its forms.
func (r reply) wantRefused(t testing.TB, httpStatus int, code string, reason server.Reason) *errdetails.ErrorInfo {
	t.Helper()
	var e struct {
		Code, Message string
		Details       []struct {
			Type, Value string
			Debug       json.RawMessage
		}
	}
	strict := json.NewDecoder(bytes.NewReader(r.body))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&e); err != nil || r.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d is no error in JSON: %v: %v: %s", r.status, err, r.header, r.body)
	}
	if r.status != httpStatus || e.Code != code || e.Message == "" || len(e.Details) != 1 || e.Details[0].Type != "google.rpc.ErrorInfo" {
		t.Fatalf("got %d %s, want %d %s %s", r.status, r.body, httpStatus, code, reason)
	}
	info, debug := &errdetails.ErrorInfo{}, &errdetails.ErrorInfo{}
	value, err := base64.RawStdEncoding.DecodeString(e.Details[0].Value)
	if err == nil {
		err = proto.Unmarshal(value, info)
	}
	if err == nil {
		err = protojson.Unmarshal(e.Details[0].Debug, debug)
	}
	if err != nil || !proto.Equal(info, debug) {
		t.Fatalf("the two forms of the detail differ (%v): %s", err, r.body)
	}
	if info.GetReason() != string(reason) || info.GetDomain() != "writ.dev" {
		t.Fatalf("got reason %s, want %s: %s", info.GetReason(), reason, r.body)
	}
	r.wantHeader(t)
	return info
}

// wantHeader checks what no answer may lack or have.
func (r reply) wantHeader(t testing.TB) {
	t.Helper()
	for name := range r.header {
		if strings.HasPrefix(name, "Access-Control-") || strings.HasPrefix(name, "Grpc-") || strings.HasPrefix(name, "Trailer") || name == "Server" {
			t.Errorf("the answer has the header %s", name)
		}
	}
	if r.header.Get("Cache-Control") != "no-store" || r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("Date") == "" {
		t.Errorf("the answer's header is %v", r.header)
	}
}

func body(text string) io.Reader { return strings.NewReader(text) }

// rawHTTP sends text as it is and returns the connection.
func rawHTTP(t testing.TB, address, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(15 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

// readReply reads one response.
func readReply(t testing.TB, r *bufio.Reader) reply {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, data}
}

func (h *house) requestHead(secret string, headers ...string) string {
	return "POST " + decideMethod + " HTTP/1.1\r\nHost: " + h.web + "\r\nContent-Type: application/json\r\nAuthorization: Bearer " + secret + "\r\n" +
		strings.Join(append(headers, ""), "\r\n") + "\r\n"
}

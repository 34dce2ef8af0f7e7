package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/telemetry/telemetrytest"
)

// TestTokensStaySecret: whatever is done with tokens and proofs of possession,
// rightly or wrongly, their signatures are in nothing that a server writes:
// logs, records, spans, errors, answers, files.
func TestTokensStaySecret(t *testing.T) {
	collector := telemetrytest.New(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.Endpoint)
	one := newSigner(t, issuerOne, "k1")
	// Nobody answers for the second issuer.
	r := serveBundle(t, tokenBundle(t, publishKeys(t, one), "http://127.0.0.1:1/keys"))
	type raw = map[string]any
	var secrets, written []string
	secret := func(compact string) string {
		secrets = append(secrets, compact[strings.LastIndexByte(compact, '.')+1:])
		return compact
	}
	tell := func(what string, v ...any) { written = append(written, what+": "+fmt.Sprint(v...)) }

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	decide := func(p *writv1.Proposal) {
		answer, err := r.host.decide(ctx, p)
		tell("gRPC", answer, err, status.Convert(err).Proto())
	}
	access := secret(one.token(nil))
	bound := secret(one.token(raw{"aud": safePlace, "cnf": one.thumbprint()}))
	proof := secret(one.proof(bound))
	long := secret(one.token(raw{"x": strings.Repeat("x", 20<<10)}))
	other := newSigner(t, issuerTwo, "k1")
	for _, c := range []struct{ tool, access, proof string }{
		{"pay/get", access, ""}, {"pay/get", secret(one.token(raw{"sub": "eve"})), ""}, {"pay/get", secret(other.token(nil)), ""},
		{"safe/get", bound, proof}, {"safe/get", bound, proof}, {"safe/get", bound, access}, {"safe/get", access, bound},
		{"pay/get", long, ""}, {"pay/get", "Bearer " + access, ""}, {"pay/get", access + "\n", ""}, {"pay/get", access + ".", ""},
	} {
		p := r.call(c.tool)
		p.AccessToken, p.DpopProof = c.access, c.proof
		decide(p)
	}
	both := r.call("pay/get")
	both.AccessToken, both.Token = access, &writv1.Token{Issuer: issuerOne, Subject: "ann", ExpiresAt: timestamppb.New(time.Now().Add(time.Hour))}
	decide(both)
	unreadable := r.call("pay/get")
	unreadable.AccessToken, unreadable.DefinitionDigest = access, "sha256:no"
	decide(unreadable)
	// In the wrong place.
	decide(&writv1.Proposal{RequestId: "misplaced", DefinitionDigest: access, Tool: "get", Server: &writv1.ServerRef{Id: "pay"}})

	with := r.call("pay/get")
	with.AccessToken = access
	decisions := writv1.NewDecisionServiceClient(r.host.conn)
	as := func(bearer string) context.Context {
		return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+bearer)
	}
	batch, err := decisions.DecideBatch(as(r.host.secret), &writv1.DecideBatchRequest{Proposals: []*writv1.Proposal{with, both}})
	tell("batch", batch, err)
	_, err = decisions.Decide(as(access), &writv1.DecideRequest{Proposal: with})
	tell("a token as the caller's secret", err, status.Convert(err).Proto())
	operator, err := dial(r.grpc.Addr().String(), r.credentials.Dir(), server.OperatorFile)
	if err != nil {
		t.Fatal(err)
	}
	explained, err := operator.explain(ctx, with, "")
	tell("explained", explained, err)
	operator.close()

	body, err := protojson.Marshal(&writv1.DecideRequest{Proposal: with})
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	for _, c := range []struct{ method, path, body, bearer string }{
		{"POST", "/writ.v1.DecisionService/Decide", text, r.host.secret},
		{"POST", "/writ.v1.DecisionService/Decide", text, access},
		{"POST", "/writ.v1.DecisionService/Decide", text[:len(text)-1], r.host.secret},
		{"POST", "/writ.v1.DecisionService/Decide", strings.Replace(text, `"accessToken"`, `"access"`, 1), r.host.secret},
		{"POST", "/writ.v1.DecisionService/Decide", strings.Replace(text, `"accessToken":`, `"accessToken": 1, "accessToken":`, 1), r.host.secret},
		{"POST", "/writ.v1.DecisionService/Decide", strings.Replace(text, `"principal":`, `"principal": "`+access+`", "p":`, 1), r.host.secret},
		{"POST", "/writ.v1.DecisionService/Decide", strings.Replace(text, `"accessToken":`, `"`+access+`":`, 1), r.host.secret},
		{"POST", "/writ.v1.DecisionService/" + access, text, r.host.secret},
		{"POST", "/writ.v1.DecisionService/Decide?access_token=" + access, text, r.host.secret},
		{"GET", "/readyz", "", ""}, {"GET", "/metrics", "", ""}, {"GET", "/healthz", "", ""},
	} {
		req, err := http.NewRequestWithContext(ctx, c.method, "http://"+r.http.Addr().String()+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+c.bearer)
		req.Header.Set("DPoP", proof)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		tell("HTTP "+c.method, resp.Status, resp.Header, string(data))
		switch {
		case c.path == "/readyz" && !bytes.Contains(data, []byte("the keys of an issuer can't be fetched")):
			t.Errorf("/readyz says nothing of the issuer whose keys can't be fetched: %s", data)
		case c.path == "/metrics" && !bytes.Contains(data, []byte("\nwrit_issuers_keys_failing 1\n")):
			t.Error("/metrics says nothing of it")
		}
	}
	http.DefaultClient.CloseIdleConnections()
	r.stop()

	tell("log", r.log.String())
	for _, span := range collector.Spans() {
		tell("span", span)
	}
	records := ""
	if err := filepath.WalkDir(r.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		tell(filepath.Base(path), string(data))
		if filepath.Ext(path) == ".jsonl" {
			records += string(data)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(access))
	secrets = append(secrets, hex.EncodeToString(sum[:])) // the log has it under its key only
	for _, text := range written {
		for i, s := range secrets {
			if strings.Contains(text, s) {
				t.Errorf("secret %d is in what is written: %.300s", i, text)
			}
		}
	}
	if n := strings.Count(records, `"token_digest":"`); n < 10 {
		t.Errorf("%d records tell the digest of a token:\n%s", n, records)
	}
	if len(collector.Spans()) < 10 || len(r.log.String()) == 0 {
		t.Errorf("%d spans, log %q: too little for the test to mean something", len(collector.Spans()), r.log.String())
	}
}

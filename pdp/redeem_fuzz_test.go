package pdp_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/pdp"
)

// FuzzRedeem: whatever a server sends, it may act only if what it sees is, in
// its canonical form, the call that the grant is for, and once. GRANT stands for
// the grant's text, of which one bit is turned where flip is not negative.
func FuzzRedeem(f *testing.F) {
	const good = `{"recipient":"ACME-SUPPLIER-01","amount_gbp":125.0,"reason":"Synthetic invoice 17"}`
	const attempt = "AAAAAAAAAAAAAAAAAAAAAA"
	add := func(change func(*pdp.Redemption), flip int) {
		r := pdp.Redemption{
			Grant: "GRANT", Server: "payments.internal", Tool: "create_payment", ArgumentsJSON: []byte(good),
			Principal: writ.Principal{Issuer: "https://login.example", Subject: "user:raj"}, Attempt: attempt,
		}
		change(&r)
		f.Add(r.Grant, flip, r.Server, r.Tool, r.ArgumentsJSON, r.ExtraParamsJSON, r.Principal.Issuer, r.Principal.Subject, r.Principal.Tenant, r.Attempt, r.AtLeastAsFresh)
	}
	add(func(*pdp.Redemption) {}, -1)
	for _, flip := range []int{0, 7, 500, 2000, 1 << 20} {
		add(func(*pdp.Redemption) {}, flip)
	}
	for _, text := range []string{"", "GRAN", "GRANT ", "GRANT.", "GRANT=", "..", "GRANTGRANT"} {
		add(func(r *pdp.Redemption) { r.Grant = text }, -1)
	}
	for _, text := range []string{
		"", "{}", "null", "[]", strings.Replace(good, "125.0", "1.25e2", 1), strings.Replace(good, "125.0", "1250", 1), " " + good + "\n",
		`{"reason":"Synthetic invoice 17","amount_gbp":125,"recipient":"ACME-SUPPLIER-0\u0031"}`, strings.Replace(good, "125.0", `125,"amount_gbp":125`, 1),
		strings.Replace(good, "125.0", `125,"Amount_gbp":1`, 1), strings.Replace(good, "125.0", "125.00000000000000001", 1), strings.Replace(good, "125.0", `"125"`, 1),
		strings.Replace(good, "ACME", "ACME\xff", 1), strings.Repeat("[", 2000),
	} {
		add(func(r *pdp.Redemption) { r.ArgumentsJSON = []byte(text) }, -1)
	}
	for _, text := range []string{"{}", `{"inputResponses":{}}`, "x"} {
		add(func(r *pdp.Redemption) { r.ExtraParamsJSON = []byte(text) }, -1)
	}
	for _, change := range []func(*pdp.Redemption){
		func(r *pdp.Redemption) { r.Server = "files.internal" },
		func(r *pdp.Redemption) { r.Tool = "get_payment" },
		func(r *pdp.Redemption) { r.Tool = "create_payment\x00" },
		func(r *pdp.Redemption) { r.Principal.Subject = "user:raj\xff" },
		func(r *pdp.Redemption) { r.Principal.Subject = `user:raj","tenant":"x` },
		func(r *pdp.Redemption) { r.Principal.Tenant = "acme" },
		func(r *pdp.Redemption) { r.Principal.Issuer = "https://login.example/" },
		func(r *pdp.Redemption) { r.Attempt = attempt[1:] },
		func(r *pdp.Redemption) { r.Attempt = attempt[1:] + "B" },
		func(r *pdp.Redemption) { r.Attempt = attempt + "\n" },
		func(r *pdp.Redemption) { r.AtLeastAsFresh = "x" },
	} {
		add(change, -1)
	}

	b := lab(f)
	holder := holding(b.Snapshot)
	p := newPDP(f, discard{}, holder)
	host, caller := b.Snapshot.LocalHost, b.Snapshot.LocalServer
	var payment writ.Proposal
	for i := range b.Scenarios {
		if b.Scenarios[i].Name == "small allowlisted payment" {
			payment = b.Scenarios[i].At(time.Now()).Proposal
		}
	}
	canonical := func(text []byte) string {
		if len(text) == 0 {
			return "{}"
		}
		tree, err := canon.ParseObject(text)
		if err != nil {
			return ""
		}
		return string(canon.Append(nil, tree))
	}
	count := 0
	f.Fuzz(func(t *testing.T, text string, flip int, server, tool string, arguments, extra []byte, issuer, subject, tenant, id, fresh string) {
		count++
		q := payment
		q.RequestID = fmt.Sprint(count)
		a, err := p.Decide(t.Context(), host, &q, pdp.Ask{})
		if err != nil || a.Grant().Token == "" {
			t.Fatalf("%+v, %v", a.Decision(), err)
		}
		token := a.Grant().Token
		text = strings.ReplaceAll(text, "GRANT", token)
		if flip >= 0 && text != "" {
			bits := []byte(text)
			bits[flip/8%len(bits)] ^= 1 << (flip % 8)
			text = string(bits)
		}
		view := &pdp.Redemption{
			Grant: text, Server: server, Tool: tool, ArgumentsJSON: arguments, ExtraParamsJSON: extra,
			Principal: writ.Principal{Issuer: issuer, Subject: subject, Tenant: tenant}, Attempt: id, AtLeastAsFresh: fresh,
		}
		given := bytes.Clone(arguments)
		raw, failed := base64.RawURLEncoding.Strict().DecodeString(id)
		same := text == token && server == q.Server.ID && tool == q.Tool && view.Principal == q.Principal &&
			canonical(arguments) == canonical(q.ArgumentsJSON) && canonical(extra) == "{}" && len(raw) == 16 && failed == nil && !strings.ContainsAny(id, "\r\n")
		demand := fresh == "" // anything else may be a revision that is there
		got, err := p.Redeem(t.Context(), caller, view)
		if err != nil {
			t.Fatal(err)
		}
		if got.MayAct() && !same || same && demand && !got.MayAct() {
			t.Fatalf("the same call: %t; %+v", same, got.Decision())
		}
		if !bytes.Equal(given, arguments) {
			t.Error("the request was changed")
		}
		if !got.MayAct() && (got.Decision().Outcome != writ.Deny || got.Decision().Code.Control() == "" || !got.ActBefore().IsZero() || got.IdempotencyKey() != "") {
			t.Errorf("a refusal that tells too much, or too little: %+v", got)
		}
		// The honest attempt goes, exactly if nothing was spent; and then nothing.
		honest := redemption(a.Grant(), &q)
		second, err := p.Redeem(t.Context(), caller, honest)
		if err != nil || second.MayAct() == got.MayAct() {
			t.Fatalf("acted before: %t, and then: %+v, %v", got.MayAct(), second.Decision(), err)
		}
		if third, err := p.Redeem(t.Context(), caller, redemption(a.Grant(), &q)); err != nil || third.MayAct() {
			t.Fatalf("twice: %+v, %v", third.Decision(), err)
		}
	})
}

// discard is a log of which nobody reads.
type discard struct{}

func (discard) Append(context.Context, audit.Record, bool) error { return nil }

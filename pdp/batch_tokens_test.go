package pdp_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

// TestBatchWaitsOnceForKeys: tokens whose issuers don't answer cost a batch one
// wait together. Otherwise its last items would be decided in a world of long
// ago, and no proposal of it in time.
func TestBatchWaitsOnceForKeys(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	b := lab(t)
	world := *b.Snapshot
	world.Issuers = maps.Clone(world.Issuers)
	good := named(t, b, "small allowlisted payment")
	const issuers = 12
	var items []pdp.Item
	for i := range issuers {
		name := fmt.Sprintf("https://%s/%d", silent.Addr(), i)
		world.Issuers[name] = &snapshot.Issuer{Name: name, JWKS: name, AllowPrivate: true}
		p := good.Proposal
		p.Token, p.AccessToken = nil, compact(`{"alg":"ES256","typ":"at+jwt","kid":"k"}`, fmt.Sprintf(`{"iss":%q,"sub":"ann","aud":"x","exp":%d}`, name, time.Now().Add(time.Hour).Unix()))
		items = append(items, pdp.Item{Proposal: &p})
	}
	items = append(items, pdp.Item{Proposal: &good.Proposal})
	tokens := token.New(token.Config{})
	defer tokens.Close()
	p, err := pdp.New(pdp.Config{Snapshots: holding(&world), Log: &memory{}, Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	// Each would wait for a second; together they may take less than these.
	ctx, cancel := context.WithTimeout(t.Context(), (issuers-2)*time.Second)
	defer cancel()
	answers, err := p.DecideBatch(ctx, b.Snapshot.Callers[good.Caller], items, pdp.Ask{})
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers[:issuers] {
		if a.Decision().Code != writ.CodeTokenInvalid {
			t.Errorf("item %d: %+v", i, a.Decision())
		}
	}
	if !answers[issuers].Allowed() {
		t.Errorf("the good one: %+v", answers[issuers].Decision())
	}
}

// compact is a token that nobody has signed.
func compact(head, claims string) []byte {
	encode := base64.RawURLEncoding.EncodeToString
	return []byte(encode([]byte(head)) + "." + encode([]byte(claims)) + "." + encode(make([]byte, 64)))
}

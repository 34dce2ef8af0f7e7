package serve_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/writ-pdp/writ/etcd/etcdtest"
)

// TestReviewsShared: what must be agreed to at one replica is approved at
// another, with the command, and counts at a third; what is rejected stays so.
func TestReviewsShared(t *testing.T) {
	t.Parallel()
	c := newCluster(t, etcdtest.Config{})
	all, _ := c.replicas(3)
	p := propose("ann", large, "one")
	a, err := all[0].life.Load().decide(t.Context(), p)
	if err != nil || a.GetReview().GetId() == "" || a.GetGrant() != nil {
		t.Fatalf("%v %v", a, err)
	}
	id := a.GetReview().GetId()
	var shown struct {
		Review struct {
			ReviewDigest string `json:"reviewDigest"`
		}
		ReviewDigest string `json:"reviewDigest"`
	}
	text := run(t, 0, append([]string{"review", "show", id, "--json"}, all[1].at()...)...)
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	digest := shown.ReviewDigest + shown.Review.ReviewDigest
	// Nobody agrees to what is done for themselves.
	run(t, 4, append([]string{"review", "approve", id, "--as", "ann", "--yes", "--digest", digest}, all[1].at()...)...)
	run(t, 0, append([]string{"review", "approve", id, "--as", "bob", "--yes", "--digest", digest}, all[1].at()...)...)
	again, err := all[2].life.Load().decide(t.Context(), p)
	if err != nil || again.GetGrant().GetToken() == "" {
		t.Fatalf("%v %v", again, err)
	}
	redeemed(t, all[0], redemption(p, again.GetGrant().GetToken(), redemptionID()), "REDEEMED")

	q := propose("ann", large, "two")
	if a, err = all[0].life.Load().decide(t.Context(), q); err != nil || a.GetReview().GetId() == "" {
		t.Fatalf("%v %v", a, err)
	}
	run(t, 0, append([]string{"review", "reject", a.GetReview().GetId(), "--as", "bob", "--yes", "--reason", "no"}, all[2].at()...)...)
	for _, r := range all {
		if a, err := r.life.Load().decide(t.Context(), q); err != nil || a.GetGrant() != nil {
			t.Errorf("%s: %v %v", r.name, a, err)
		}
	}
	if text := run(t, 0, append([]string{"review", "list"}, all[1].at()...)...); text == "" {
		t.Error(fmt.Errorf("there is no list"))
	}
}

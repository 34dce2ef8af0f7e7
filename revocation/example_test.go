package revocation_test

import (
	"fmt"
	"time"

	"github.com/writ-pdp/writ/revocation"
)

func Example() {
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	view, err := revocation.New([]revocation.Entry{
		{Kind: revocation.Principal, Issuer: "https://login.acme.example", ID: "ann", IssuedBefore: noon, Reason: "laptop stolen"},
		{Kind: revocation.Server, ID: "payments", From: noon.Add(time.Hour), Reason: "maintenance"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := noon.Add(10 * time.Minute)

	entry, revoked := view.Revoked(revocation.Principal, "https://login.acme.example", "ann", noon.Add(-time.Minute), now)
	fmt.Println("a token of 11:59:", revoked, entry.Reason)
	_, revoked = view.Revoked(revocation.Principal, "https://login.acme.example", "ann", noon.Add(time.Minute), now)
	fmt.Println("a token of 12:01:", revoked)
	_, revoked = view.Revoked(revocation.Server, "", "payments", time.Time{}, now)
	fmt.Println("the server:", revoked)
	// Output:
	// a token of 11:59: true laptop stolen
	// a token of 12:01: false
	// the server: false
}

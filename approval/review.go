package approval

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/definition"
)

// MaxReview is how many bytes one review may have, as [Encode] writes it.
const MaxReview = 1 << 20

// Prepare returns r as a store keeps it when it is opened: named, with its end,
// without agreements, and without what nobody may keep: the proposal's access
// token, its proof of possession and its approvals. Its definition is there as
// a digest. The result shares no memory with r. The errors are [ErrNoDigest];
// [ErrFull], for what is larger than [MaxReview]; or what can't be kept.
func Prepare(r Review, limits Limits) (Review, error) {
	if r.Shown.Digest.IsZero() || r.Shown.ProposalDigest.IsZero() {
		return Review{}, ErrNoDigest
	}
	limits = limits.Filled()
	r.ID = ID(r.Shown.Digest)
	r.Expires = r.Opened.Add(limits.Life)
	r.Agreements, r.Rejection = nil, nil
	p := &r.Proposal
	p.AccessToken, p.DPoPProof, p.Approvals, p.SignedApprovals = nil, nil, nil, nil
	if len(p.DefinitionJSON) > 0 {
		tool, err := definition.Parse(p.DefinitionJSON)
		if err != nil {
			return Review{}, fmt.Errorf("the proposal's definition: %w", err)
		}
		p.DefinitionJSON, p.DefinitionDigest = nil, tool.Digest
	}
	for i := range r.Shown.Policies {
		// Who has agreed is counted from Agreements.
		if r.Shown.Policies[i].Agreed != 0 {
			r.Shown.Policies = slices.Clone(r.Shown.Policies)
			for k := range r.Shown.Policies {
				r.Shown.Policies[k].Agreed = 0
			}
			break
		}
	}
	data, err := Encode(r)
	if err != nil {
		return Review{}, err
	}
	return Decode(data)
}

// WithAgreement returns r with one more agreement, of whose giver there is no
// other. The errors are those of [Store.Agree].
func (r Review) WithAgreement(a Agreement) (Review, error) {
	switch {
	case r.Rejection != nil:
		return r, ErrRejected
	case !a.Given.Before(r.Expires):
		return r, ErrExpired
	case a.ID == "" || a.Approver.Issuer == "" || a.Approver.Subject == "" || a.Given.IsZero():
		return r, errors.New("an agreement has an id, an approver and a time")
	}
	kept := make([]Agreement, 0, len(r.Agreements)+1)
	for _, other := range r.Agreements {
		if other.Approver.Issuer != a.Approver.Issuer || other.Approver.Subject != a.Approver.Subject {
			kept = append(kept, other)
		}
	}
	if len(kept) >= MaxAgreements {
		return r, ErrFull
	}
	a.Policies = slices.Clone(a.Policies)
	r.Agreements = append(kept, a)
	return r, nil
}

// WithRejection returns r as somebody has rejected it. The errors are those of
// [Store.Reject].
func (r Review) WithRejection(by Rejection) (Review, error) {
	switch {
	case r.Rejection != nil:
		return r, ErrRejected
	case !by.Given.Before(r.Expires):
		return r, ErrExpired
	case by.Approver.Issuer == "" || by.Approver.Subject == "" || by.Given.IsZero():
		return r, errors.New("a rejection has an approver and a time")
	}
	r.Rejection = &by
	return r, nil
}

// encoded is the form in which reviews are kept outside of the program. Another
// form has another version.
type encoded struct {
	Version int
	Review  Review
}

const encodedVersion = 1

// Encode writes r for [Decode]. The error is an [ErrFull] if it has more than
// [MaxReview] bytes.
func Encode(r Review) ([]byte, error) {
	data, err := json.Marshal(encoded{encodedVersion, r}, json.FormatNilSliceAsNull(true), json.FormatNilMapAsNull(true), json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("a review that can't be written: %w", err)
	}
	if len(data) > MaxReview {
		return nil, fmt.Errorf("%w: one of %d bytes", ErrFull, len(data))
	}
	return data, nil
}

// Decode reads what Encode wrote, and nothing else.
func Decode(data []byte) (Review, error) {
	if len(data) > MaxReview {
		return Review{}, fmt.Errorf("a review of %d bytes: %d is the most", len(data), MaxReview)
	}
	var e encoded
	if err := json.Unmarshal(data, &e, json.RejectUnknownMembers(true)); err != nil {
		return Review{}, fmt.Errorf("a review that can't be read: %w", err)
	}
	if e.Version != encodedVersion {
		return Review{}, fmt.Errorf("a review of version %d, and this program reads version %d", e.Version, encodedVersion)
	}
	if e.Review.ID == "" || e.Review.ID != ID(e.Review.Shown.Digest) {
		return Review{}, errors.New("a review that is kept under another's name")
	}
	return e.Review, nil
}

// proposalOf is the digest of what a review is about.
func proposalOf(r *Review) canon.Digest { return r.Shown.ProposalDigest }

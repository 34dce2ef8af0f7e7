package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-pdp/writ/decide"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// visible is somebody's text as it may go to a terminal: every character that
// is not seen, or that a terminal would obey, is escaped, and so is the
// backslash, so that no two texts look the same for it.
func visible(s string) string { return escaped(s, true) }

// visibleCode is visible for a text that has escapes of its own, where a
// backslash says what it says: JSON, and entities and values of Cedar.
func visibleCode(s string) string { return escaped(s, false) }

func escaped(s string, backslash bool) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\\' && backslash:
			b.WriteString(`\\`)
		case r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r) && !decide.Invisible(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// when is an instant for people.
func when(t *timestamppb.Timestamp) string {
	if t == nil {
		return "at no stated time"
	}
	return t.AsTime().UTC().Format(time.RFC3339)
}

func stateText(s writv1.ReviewState) string {
	switch s {
	case writv1.ReviewState_REVIEW_STATE_OPEN:
		return "open"
	case writv1.ReviewState_REVIEW_STATE_APPROVED:
		return "approved"
	case writv1.ReviewState_REVIEW_STATE_REJECTED:
		return "rejected"
	case writv1.ReviewState_REVIEW_STATE_EXPIRED:
		return "over"
	case writv1.ReviewState_REVIEW_STATE_UNSPECIFIED:
	}
	return "in an unknown state"
}

func personText(p *writv1.Principal) string {
	out := visible(p.GetSubject()) + " of " + visible(p.GetIssuer())
	if p.GetTenant() != "" {
		out += ", tenant " + visible(p.GetTenant())
	}
	return out
}

// undone says whether what a review is about can be undone.
func undone(r *writv1.Review) string {
	switch {
	case r.GetEffect() == "read" || r.GetEffect() == "pure":
		return "changes nothing"
	case r.GetReversible():
		return "can be undone"
	}
	return "CANNOT BE UNDONE"
}

// printReviews prints one line for each review.
func printReviews(w io.Writer, r *writv1.ListReviewsResponse) error {
	var b strings.Builder
	for _, v := range r.GetReviews() {
		fmt.Fprintf(&b, "%s  %-8s  until %s  %s/%s", visible(v.GetId()), stateText(v.GetState()), when(v.GetExpiresAt()), visible(v.GetServer()), visible(v.GetTool()))
		for _, e := range v.GetEntities() {
			if e.GetTarget() {
				fmt.Fprintf(&b, " %s", visibleCode(e.GetEntity()))
			}
		}
		fmt.Fprintf(&b, "  for %s", visibleCode(v.GetPrincipalEntity()))
		for _, p := range v.GetPolicies() {
			fmt.Fprintf(&b, "  %s %d/%d", visible(p.GetId()), p.GetAgreed(), p.GetPeople())
		}
		if u := undone(v); u == "CANNOT BE UNDONE" {
			b.WriteString("  " + u)
		}
		b.WriteByte('\n')
	}
	switch {
	case r.GetMore():
		b.WriteString("there are more: ask for more with --limit\n")
	case len(r.GetReviews()) == 0:
		b.WriteString("nobody is asked for anything\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printReview prints everything of one review that a person has to weigh.
func printReview(w io.Writer, r *writv1.Review) error {
	var b strings.Builder
	fmt.Fprintf(&b, "review %s  %s, until %s\n", visible(r.GetId()), stateText(r.GetState()), when(r.GetExpiresAt()))
	fmt.Fprintf(&b, "  proposed  %s, by %s, as %s\n", when(r.GetOpenedAt()), visible(r.GetCaller()), visible(r.GetRequestId()))
	fmt.Fprintf(&b, "\nwhat      %s/%s  (%s)\n", visible(r.GetServer()), visible(r.GetTool()), visible(r.GetAction()))
	fmt.Fprintf(&b, "  effect    %s: %s\n", visible(r.GetEffect()), undone(r))
	fmt.Fprintf(&b, "  contract  %s\n", visible(r.GetContractDigest()))
	if r.GetRetries() != "" {
		fmt.Fprintf(&b, "  again     nobody knows what came of an earlier try, %s\n", visible(r.GetRetries()))
	}
	fmt.Fprintf(&b, "\nfor       %s  (%s)\n", visibleCode(r.GetPrincipalEntity()), personText(r.GetPrincipal()))
	for _, a := range r.GetActors() {
		fmt.Fprintf(&b, "  by        %s\n", visibleCode(a))
	}
	if in := r.GetIntent(); in != nil {
		fmt.Fprintf(&b, "  because   %s  (intent %s, declared %s, until %s)\n", visible(in.GetPurpose()), visible(in.GetId()), when(in.GetDeclaredAt()), when(in.GetExpiresAt()))
	} else {
		b.WriteString("  because   the user's purpose is not stated\n")
	}
	b.WriteString("\nabout\n")
	for _, e := range r.GetEntities() {
		printEntity(&b, e)
	}
	b.WriteString("\nvalues\n")
	for _, a := range r.GetArguments() {
		printArgument(&b, a)
	}
	if r.GetExtraParamsJson() != "" {
		fmt.Fprintf(&b, "  beside the arguments  %s\n", visibleCode(r.GetExtraParamsJson()))
	}
	b.WriteString("\nasked for by\n")
	for _, p := range r.GetPolicies() {
		fmt.Fprintf(&b, "  %s  %d of %d people have agreed\n", visible(p.GetId()), p.GetAgreed(), p.GetPeople())
		if p.GetExplain() != "" {
			fmt.Fprintf(&b, "    %s\n", visible(p.GetExplain()))
		}
		for _, t := range p.GetTargets() {
			fmt.Fprintf(&b, "    about %s\n", visibleCode(t))
		}
	}
	for _, a := range r.GetApprovals() {
		fmt.Fprintf(&b, "  agreed    %s, %s, until %s, through %s\n", personText(a.GetApprover()), when(a.GetGivenAt()), when(a.GetExpiresAt()), visible(a.GetCaller()))
	}
	if r.GetRejectedBy() != nil {
		fmt.Fprintf(&b, "  rejected  %s: %s\n", personText(r.GetRejectedBy()), visible(r.GetRejectedBecause()))
	}
	fmt.Fprintf(&b, "\nworld     %s\nproposal  %s\ndigest    %s\n", visible(r.GetRevision()), visible(r.GetProposalDigest()), visible(r.GetReviewDigest()))
	_, err := io.WriteString(w, b.String())
	return err
}

func printEntity(b *strings.Builder, e *writv1.ReviewEntity) {
	fmt.Fprintf(b, "  %s", visibleCode(e.GetEntity()))
	if e.GetArgument() != "" {
		fmt.Fprintf(b, "  from %s", visible(e.GetArgument()))
	}
	if !e.GetTarget() {
		b.WriteString("  named beside it")
	}
	b.WriteByte('\n')
	if !e.GetHeld() {
		b.WriteString("    NEW: nothing is known of it\n")
	}
	for _, held := range [...]struct {
		what   string
		values map[string]string
	}{{"", e.GetAttributes()}, {"tag ", e.GetTags()}} {
		for _, name := range slices.Sorted(maps.Keys(held.values)) {
			fmt.Fprintf(b, "    %s%s  %s\n", held.what, visible(name), visibleCode(held.values[name]))
		}
	}
	for _, p := range e.GetParents() {
		fmt.Fprintf(b, "    in %s\n", visibleCode(p))
	}
}

func printArgument(b *strings.Builder, a *writv1.ReviewArgument) {
	value := visibleCode(a.GetValueJson())
	if value == "" {
		value = "-"
	}
	fmt.Fprintf(b, "  %s  %s\n", visible(a.GetPointer()), value)
	for _, s := range a.GetSources() {
		fmt.Fprintf(b, "    %s %s, %s", visible(s.GetKind()), visible(s.GetReference()), when(s.GetObservedAt()))
		if s.GetClassification() != "" {
			fmt.Fprintf(b, ", %s", visible(s.GetClassification()))
		}
		if s.GetAgrees() {
			b.WriteString(": agrees")
		} else {
			b.WriteString(": SAYS SOMETHING ELSE")
		}
		if !s.GetTrusted() {
			b.WriteString(", not trusted")
		}
		b.WriteByte('\n')
	}
	switch {
	case a.GetNeedsSupport() && !a.GetSupported():
		b.WriteString("    WITHOUT THE SUPPORT THAT IT NEEDS\n")
	case !a.GetSupported():
		b.WriteString("    no trusted source has it: the model may have chosen it\n")
	}
	for _, text := range a.GetWarnings() {
		fmt.Fprintf(b, "    LOOK TWICE: %s\n", visible(text))
	}
}

// printAnswer prints what came of an answer to a review.
func printAnswer(w io.Writer, what string, person *writv1.Principal, d *writv1.Decision, r *writv1.Review) error {
	var b strings.Builder
	if d.GetOutcome() != writv1.Outcome_OUTCOME_ALLOW {
		fmt.Fprintf(&b, "not %s: %s\n  %s\n", what, visible(d.GetCode()), visible(d.GetExplanation()))
	} else {
		fmt.Fprintf(&b, "%s by %s; the review is %s\n", what, personText(person), stateText(r.GetState()))
		for _, p := range r.GetPolicies() {
			fmt.Fprintf(&b, "  %s  %d of %d people have agreed\n", visible(p.GetId()), p.GetAgreed(), p.GetPeople())
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

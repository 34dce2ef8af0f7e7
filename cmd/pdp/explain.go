package main

import (
	"fmt"
	"io"
	"strings"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// printExplanation shows an explanation as a tree for a terminal.
func printExplanation(w io.Writer, e *writv1.ExplainResponse) error {
	var b strings.Builder
	d := e.GetDecision()
	fmt.Fprintf(&b, "%s  revision %s\n", headline(d), short(d.GetRevision()))
	fmt.Fprintf(&b, "  %s\n", d.GetExplanation())
	for _, c := range e.GetControls() {
		mark := "ok "
		if c.GetCode() != "" {
			mark = "NO "
		}
		fmt.Fprintf(&b, "  %s %s", mark, c.GetControl())
		if c.GetCode() != "" {
			fmt.Fprintf(&b, "  %s", c.GetCode())
		}
		b.WriteByte('\n')
		for _, fact := range c.GetSaw() {
			fmt.Fprintf(&b, "        %s\n", fact)
		}
		if c.GetControl() == "POLICY" {
			for _, p := range e.GetParties() {
				printParty(&b, p)
			}
		}
	}
	for i, line := range e.GetToAllow() {
		if i == 0 {
			b.WriteString("  To allow:\n")
		}
		fmt.Fprintf(&b, "    %s\n", line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printParty(b *strings.Builder, p *writv1.PartyExplained) {
	role := "principal"
	if p.GetActor() {
		role = "actor"
	}
	fmt.Fprintf(b, "        %s %s on %s\n", role, p.GetWho(), p.GetResource())
	for _, x := range p.GetPolicies() {
		kind := "forbid"
		if x.GetPermit() {
			kind = "permit"
		}
		fmt.Fprintf(b, "          %s %s  %s  %s:%d", kind, x.GetPolicy().GetId(), verdictText(x), x.GetPolicy().GetFile(), x.GetPolicy().GetLine())
		var lacks []string
		if !x.GetPrincipal() {
			lacks = append(lacks, "principal NO: "+x.GetWantsPrincipal())
		}
		if !x.GetResource() {
			lacks = append(lacks, "resource NO: "+x.GetWantsResource())
		}
		if x.GetPrincipal() && x.GetResource() && !x.GetCondition() {
			lacks = append(lacks, "condition NO")
		}
		if len(lacks) > 0 && x.GetVerdict() != writv1.PolicyVerdict_POLICY_VERDICT_FAILED {
			fmt.Fprintf(b, "  (%s)", strings.Join(lacks, "; "))
		}
		b.WriteByte('\n')
	}
	if n := p.GetOthers(); n > 0 {
		fmt.Fprintf(b, "          … and %d more that say nothing\n", n)
	}
}

func verdictText(x *writv1.PolicyExplained) string {
	switch x.GetVerdict() {
	case writv1.PolicyVerdict_POLICY_VERDICT_SATISFIED:
		if r := x.GetPolicy().GetReview(); r > 0 {
			return fmt.Sprintf("applies, unless people approve: needs %d", r)
		}
		return "applies"
	case writv1.PolicyVerdict_POLICY_VERDICT_NOT_SATISFIED:
		return "does not apply"
	case writv1.PolicyVerdict_POLICY_VERDICT_FAILED, writv1.PolicyVerdict_POLICY_VERDICT_UNSPECIFIED:
	}
	return "COULD NOT BE EVALUATED"
}

// headline is the first line of a decision: outcome, code, control, call.
func headline(d *writv1.Decision) string {
	var b strings.Builder
	b.WriteString(server.OutcomeFromProto(d.GetOutcome()).String())
	if d.GetCode() != "ALLOW" {
		fmt.Fprintf(&b, " %s", d.GetCode())
	}
	if d.GetControl() != "" {
		fmt.Fprintf(&b, " (%s)", d.GetControl())
	}
	fmt.Fprintf(&b, "  %s/%s", d.GetServer(), d.GetTool())
	if len(d.GetResources()) > 0 {
		fmt.Fprintf(&b, " on %s", strings.Join(d.GetResources(), ", "))
	}
	return b.String()
}

// short is a digest that people can compare at a glance.
func short(digest string) string {
	if len(digest) > 19 {
		return digest[:19]
	}
	return digest
}

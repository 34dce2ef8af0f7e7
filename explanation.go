package writ

// Explanation is everything that one decision looked at, for a person who
// asks why. It holds no argument's value; names, entities and policies are in
// it. An explanation is no authority to act.
type Explanation struct {
	Decision Decision
	// Controls are those that ran, in order; the last is the one that answered.
	Controls []ControlExplained
	// Parties are the questions to the policies, one for each target and
	// everybody who acts; empty where POLICY was not reached.
	Parties []PartyExplained
	// ToAllow says what would have to change for an ALLOW, as far as that can be
	// told; any of them may still meet another control.
	ToAllow []string
}

// ControlExplained is one control and what it saw.
type ControlExplained struct {
	Control Control
	Code    Code     // that it answered; empty where it passed
	Saw     []string // one fact a line
}

// PartyExplained is one question to the policies.
type PartyExplained struct {
	Who      string // Cedar entity, as text
	Actor    bool   // an actor; otherwise the principal
	Resource string // Cedar entity, as text
	// Policies are those whose action matched, in order of file and position,
	// as many of each verdict as fit.
	Policies []PolicyExplained
	// Others is how many more were considered and are left out.
	Others int
}

// PolicyVerdict says what one policy said.
type PolicyVerdict string

// Verdicts of one policy.
const (
	PolicySatisfied PolicyVerdict = "satisfied"
	PolicyNot       PolicyVerdict = "not satisfied"
	PolicyFailed    PolicyVerdict = "could not be evaluated"
)

// PolicyExplained is one policy that was considered, part by part.
type PolicyExplained struct {
	PolicyRef
	Permit  bool // otherwise a forbid
	Verdict PolicyVerdict
	// Which parts hold: of the scope, and all conditions together.
	Principal, Resource, Condition bool
	// WantsPrincipal and WantsResource are those parts of the scope that do not
	// hold, as Cedar: principal in Group::"team".
	WantsPrincipal, WantsResource string
}

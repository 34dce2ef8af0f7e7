package audit

import (
	"errors"
	"fmt"
	"time"

	"github.com/writ-pdp/writ"
)

// Kind says what a record is about. Kinds are append-only.
type Kind string

// Kinds.
const (
	KindDecision    Kind = "decision"    // an answer to a proposal
	KindExplanation Kind = "explanation" // what such an answer would be and why; no authority to act
	KindRedemption  Kind = "redemption"  // an answer to who came with a grant
	KindApproval    Kind = "approval"    // an answer to who approves, or rejects
	KindEffect      Kind = "effect"      // an answer to who tells an effect
	KindRevocation  Kind = "revocation"  // something was withdrawn, or given back
	KindReload      Kind = "reload"      // a bundle was put in force, or (with Faults) refused
	KindStart       Kind = "start"       // a process started to answer
	KindStop        Kind = "stop"        // it stopped in good order
)

// Kinds lists every kind.
var Kinds = [...]Kind{KindDecision, KindExplanation, KindRedemption, KindApproval, KindEffect, KindRevocation, KindReload, KindStart, KindStop}

// Answers reports whether records of this kind tell an outcome and its code.
func (k Kind) Answers() bool {
	switch k {
	case KindDecision, KindExplanation, KindRedemption, KindApproval, KindEffect:
		return true
	}
	return false
}

// Record is one line of the log: a writ.audit.v1.Record, as JSON. Each field is
// the member that it names in lower case and underscores (RequestID is
// request_id); what is empty is left out. Text that is not UTF-8 has U+FFFD in
// place of each bad run of bytes.
//
// What is said to be under the key is written as the HMAC of its text under the
// log's own key, see [Log.HMAC].
type Record struct {
	Time time.Time // of the event, by the server's clock; required
	Kind Kind      // required
	ID   string    // of the answer; required for kinds that are one

	TraceID   string   // W3C trace id of the call, as the caller or this process began it: 32 lower-case hexadecimal digits; empty: not traced
	Caller    string   // name of the caller
	RequestID string   // of the proposal
	Issuer    string   // of the principal, as the proposal claims
	Subject   string   // of the principal, as the proposal claims
	Tenant    string   // of the principal, as the proposal claims
	Principal string   // Cedar entity, as text; empty where the token did not establish it
	Actors    []string // Cedar entities, as text
	Server    string
	Tool      string
	Action    string // Cedar action id
	Effect    writ.Effect

	Resources []string // Cedar entities, as text
	// SecretResources says that a secret argument is part of Resources: then
	// they are under the key.
	SecretResources  bool
	ResourcesLeftOut int           // how many more there are
	Arguments        []Argument    // the values of loggable arguments
	Evidence         []EvidenceRef // where arguments were observed

	Outcome     writ.Outcome // written for answers only
	Code        writ.Code    // required for answers
	Control     writ.Control
	Policies    []string // ids of the determining policies
	Errors      []string // ids of the policies that could not be evaluated
	Explanation string   // for people, without argument values

	// Digests, as text: "sha256:…". Those of call, proposal, review and token
	// are over values that could be guessed, so they are under the key.
	ContractDigest string
	CallDigest     string
	ProposalDigest string
	ReviewDigest   string
	PolicyDigest   string
	TokenDigest    string

	Revision string    // of the snapshot
	HeardAt  time.Time // since when the source had not confirmed that world; zero: it had
	Took     Stages

	Grant      string   // jti: of a decision that minted one, and of who came with it
	Redemption string   // ID of an earlier record: what an effect is of, and what a redemption repeats
	Review     string   // id of the review that people are asked in
	Approvals  []string // jti of those that were signed, or that counted
	// ApproverIssuer, ApproverSubject and ApproverTenant name who approved or
	// rejected.
	ApproverIssuer, ApproverSubject, ApproverTenant string
	EffectID                                        string // at the observer
	Observer                                        string // server id
	RetriesDigest                                   string // of the proposal that is tried again; under the key

	Revoked *Revoked // required for revocations
	Faults  []string // of a reload: why the bundle was refused, with places
	// Redacted says that not everything could be told. No value is written then:
	// neither Resources nor Arguments nor Evidence, whatever they hold.
	Redacted bool
}

// Argument is the value of one argument that the tool's contract calls
// loggable.
type Argument struct {
	Pointer string // JSON Pointer into the arguments (RFC 6901); of several equal ones the first counts
	JSON    string // the value, as JSON text
}

// EvidenceRef names where one argument's value was observed.
type EvidenceRef struct {
	Argument  string // JSON Pointer into the arguments
	Kind      string // of source
	Reference string // the source's name
	Secret    bool   // the argument is, or may be, a secret one: Reference is under the key
}

// Stages is how long the stages of an answer took; 0: not measured. Whole
// microseconds are written, by the stages' names in lower case.
type Stages struct {
	Wait   time.Duration // for the revision that the request demanded
	Decide time.Duration // all controls
}

// Revoked is an entry of the revocation log.
type Revoked struct {
	Sequence     uint64 // its place in that log
	Kind         string // of what it names
	Issuer, ID   string // its name
	Lift         bool   // it withdraws earlier entries of the name
	IssuedBefore time.Time
	From, Until  time.Time
	Reason       string // for people
	Author       string // for people
}

// check says what keeps r from being a record, or nil.
func (r *Record) check() error {
	switch r.Kind {
	case KindDecision, KindExplanation, KindRedemption, KindApproval, KindEffect:
		if r.ID == "" || r.Code == "" {
			return errors.New("audit: an answer's record needs ID and Code")
		}
	case KindRevocation:
		if r.Revoked == nil {
			return errors.New("audit: a revocation's record needs Revoked")
		}
	case KindReload, KindStart, KindStop:
	default:
		return fmt.Errorf("audit: unknown kind of record %q", string(r.Kind))
	}
	if r.Time.IsZero() {
		return errors.New("audit: a record needs its Time")
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/revocation"
	"github.com/writ-pdp/writ/server"
)

type revokeCmd struct {
	Name []string `arg:"" optional:"" help:"What is withdrawn: its kind, its issuer where that is part of the name, and its id." placeholder:"KIND [ISSUER] ID"`

	Reason       string `help:"Why, for those who will wonder. Required." placeholder:"TEXT" group:"Revoke"`
	IssuedBefore string `help:"Withdraw only what was issued before: a time (RFC 3339) or now. Without it, everything." placeholder:"TIME" group:"Revoke"`
	From         string `help:"In force from then on: a time, or how long from now (30m). Without it, at once." placeholder:"TIME" group:"Revoke"`
	Until        string `help:"In force until then: a time, or how long from now. Without it, for good." placeholder:"TIME" group:"Revoke"`
	Lift         bool   `help:"Give back: withdraw every earlier entry of this name." group:"Revoke"`
	For          string `help:"For whom you say this; the log names you as well." placeholder:"NAME" group:"Revoke"`

	List    bool   `help:"List the log; with KIND, or KIND [ISSUER] ID, that part of it." group:"Look"`
	InForce bool   `help:"With --list: only what is in force now." group:"Look"`
	Watch   bool   `help:"Print what is added, and what begins and ends by its times, until interrupted." group:"Look"`
	After   uint64 `help:"With --list and --watch: only what comes after this place in the log." placeholder:"N" group:"Look"`

	Server string     `help:"Address of the server: HOST:PORT, or unix:PATH of its socket." default:"127.0.0.1:7600" env:"WRIT_GRPC_ADDR" placeholder:"ADDR"`
	Data   *directory `help:"Data directory of that server, where its credentials are. Default: ${default_data}." env:"WRIT_DATA_DIR" placeholder:"DIR"`
	JSON   bool       `help:"Print JSON; with --watch one object a line."`

	clientFlags `embed:""`
}

func (*revokeCmd) Help() string {
	return `A revocation is in force, and outlives crashes, when this command returns.
Nothing undoes it but a lift: no reload, no rollback and no edit of the bundle.

KIND and what names it:
  principal ISSUER SUBJECT   a person, at every tool
  actor SUBJECT              an agent that acts for people
  token ISSUER JTI           one access token
  key ISSUER KID             a signing key: every token that it signed
  issuer URL                 an issuer: every token of it
  intent ID                  a user's purpose
  server ID, tool SERVER/TOOL
  caller NAME                who asks, or redeems
  approval ID, grant JTI     what was agreed, or granted

ISSUER is the token's issuer as issuers.yaml has it, or local where the bundle
has no such file. SUBJECT is the token's subject, not a Cedar entity. A record
has both (pdp audit search --json).

Examples:
  pdp revoke principal https://login.acme.example ann --reason "laptop stolen"
  pdp revoke principal https://login.acme.example ann --issued-before now --reason "signed out everywhere"
  pdp revoke tool payments/create_payment --until 2h --reason "wrong amounts, being looked at"
  pdp revoke server files --from 2027-01-01T00:00:00Z --reason "contract ends"
  pdp revoke principal https://login.acme.example ann --lift --reason "laptop found"
  pdp revoke --list --in-force
  pdp revoke --watch

What doesn't exist may be revoked: it may come later. So a name that is misspelt
is taken, too, and stops nobody: read the first line of the answer. Of several entries under
one name each counts; a lift withdraws all of them, and this command says which.`
}

func (k *revokeCmd) Run(c *console) error {
	if k.List && k.Watch {
		return usage("give --list or --watch, not both")
	}
	if !k.List && !k.Watch {
		return k.revoke(c)
	}
	if k.Reason != "" || k.IssuedBefore != "" || k.From != "" || k.Until != "" || k.Lift || k.For != "" {
		return usage("--list and --watch only look: leave out what belongs to a revocation")
	}
	if k.Watch {
		if len(k.Name) > 0 || k.InForce {
			return usage("--watch shows everything: leave out the name and --in-force")
		}
		return k.watch(c)
	}
	return k.list(c)
}

// named is what Name says.
type named struct{ kind, issuer, id string }

// parseName reads KIND [ISSUER] ID; part lets ISSUER and ID be missing.
func parseName(words []string, part bool) (named, error) {
	if len(words) == 0 {
		if part {
			return named{}, nil
		}
		return named{}, usage("say what is withdrawn: pdp revoke KIND [ISSUER] ID --reason TEXT; see pdp revoke --help")
	}
	kind := revocation.Kind(words[0])
	if !slices.Contains(revocation.Kinds[:], kind) {
		return named{}, usage(fmt.Sprintf("there is no kind %q: it is one of %s; see pdp revoke --help", words[0], kindNames()))
	}
	if len(words) == 1 && part {
		return named{kind: words[0]}, nil
	}
	form := words[0] + " ID"
	switch kind {
	case revocation.Principal:
		form = "principal ISSUER SUBJECT"
	case revocation.Key:
		form = "key ISSUER KID"
	case revocation.Token:
		form = "token ISSUER JTI"
	case revocation.Actor, revocation.Caller, revocation.Issuer, revocation.Intent, revocation.Server, revocation.Tool, revocation.Approval, revocation.Grant:
		if len(words) == 2 {
			return named{words[0], "", words[1]}, nil
		}
		return named{}, usage("write: pdp revoke " + form)
	}
	if len(words) == 3 {
		return named{words[0], words[1], words[2]}, nil
	}
	return named{}, usage("write: pdp revoke " + form + "; ISSUER is the token's issuer, local in a bundle without issuers.yaml")
}

// kindNames are the kinds, for people.
func kindNames() string {
	var out []string
	for _, k := range revocation.Kinds {
		out = append(out, string(k))
	}
	return strings.Join(out, ", ")
}

// timeFlag reads a time, or how long from now; "now" is now.
func timeFlag(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if text == "now" {
		return now, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(d), nil
	}
	return time.Time{}, usage(fmt.Sprintf("%s %q is neither a time such as 2027-01-01T00:00:00Z nor a duration such as 2h", flag, text))
}

// entry is the entry that the flags describe.
func (k *revokeCmd) entry() (*writv1.Revocation, error) {
	name, err := parseName(k.Name, false)
	if err != nil {
		return nil, err
	}
	if k.Reason == "" {
		return nil, usage("say why with --reason: somebody will wonder")
	}
	if k.InForce || k.After != 0 {
		return nil, usage("--in-force and --after belong to --list")
	}
	if k.Lift && (k.IssuedBefore != "" || k.From != "" || k.Until != "") {
		return nil, usage("a lift has no times: it withdraws every earlier entry of its name. Revoke anew what is to stay revoked")
	}
	out := revocation.Entry{}
	now := time.Now().UTC()
	for _, t := range []struct {
		flag, text string
		to         *time.Time
	}{{"--issued-before", k.IssuedBefore, &out.IssuedBefore}, {"--from", k.From, &out.From}, {"--until", k.Until, &out.Until}} {
		if *t.to, err = timeFlag(t.flag, t.text, now); err != nil {
			return nil, err
		}
	}
	return &writv1.Revocation{
		Kind: name.kind, Issuer: name.issuer, Id: name.id, Lift: k.Lift, Reason: k.Reason, Author: k.For,
		IssuedBefore: stamp(out.IssuedBefore), From: stamp(out.From), Until: stamp(out.Until),
	}, nil
}

// dial connects to the server as its operator.
func (k *revokeCmd) dial() (*client, error) {
	return k.clientFlags.dial(k.Server, k.Data, server.OperatorFile)
}

// operator asks a server's RevocationService.
type operator struct {
	writv1.RevocationServiceClient
	secret string
}

func (c *client) operator() operator {
	return operator{writv1.NewRevocationServiceClient(c.conn), c.secret}
}

func (o operator) as(ctx context.Context) context.Context {
	return bearing(ctx, o.secret)
}

// callTimeout is how long one call may take.
const callTimeout = 10 * time.Second

// revoke adds one entry and shows what came of it.
func (k *revokeCmd) revoke(c *console) error {
	entry, err := k.entry()
	if err != nil {
		return err
	}
	client, err := k.dial()
	if err != nil {
		return err
	}
	defer client.close()
	o := client.operator()
	ctx, cancel := context.WithTimeout(o.as(c.ctx), callTimeout)
	defer cancel()
	r, err := o.Revoke(ctx, &writv1.RevokeRequest{Revocations: []*writv1.Revocation{entry}})
	if err != nil {
		return fmt.Errorf("the server could not revoke: %w", err)
	}
	if len(r.GetRevocations()) != 1 {
		return fmt.Errorf("the server answers with %d entries to one: list them before you repeat this", len(r.GetRevocations()))
	}
	added := r.GetRevocations()[0]
	result := revoked{Revocation: added, Revision: r.GetRevision()}
	if result.InForce, result.Withdrawn, err = o.standing(ctx, added); err != nil {
		return fmt.Errorf("it is done, as number %d, but the server could not say what is in force now: %w", added.GetSequence(), err)
	}
	return result.print(c.out, k.JSON)
}

// standing returns which entries of added's name are in force, and which ones
// it withdrew.
func (o operator) standing(ctx context.Context, added *writv1.Revocation) (inForce, withdrawn []*writv1.Revocation, err error) {
	ask := &writv1.ListRevocationsRequest{Kind: added.GetKind(), Id: added.GetId()}
	err = o.all(ctx, ask, func(e *writv1.Revocation) error {
		switch {
		case e.GetIssuer() != added.GetIssuer() || e.GetSequence() >= added.GetSequence() || !added.GetLift():
		case e.GetLift(): // what came before, this one has withdrawn
			withdrawn = nil
		default:
			withdrawn = append(withdrawn, e)
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	ask = &writv1.ListRevocationsRequest{Kind: added.GetKind(), Id: added.GetId(), InForce: true}
	err = o.all(ctx, ask, func(e *writv1.Revocation) error {
		if e.GetIssuer() == added.GetIssuer() {
			inForce = append(inForce, e)
		}
		return nil
	})
	return inForce, withdrawn, err
}

// all calls tell with each entry that ask asks for, page by page.
func (o operator) all(ctx context.Context, ask *writv1.ListRevocationsRequest, tell func(*writv1.Revocation) error) error {
	for {
		page, err := o.ListRevocations(ctx, ask)
		if err != nil {
			return err
		}
		for _, e := range page.GetRevocations() {
			if err := tell(e); err != nil {
				return err
			}
		}
		if page.GetNextAfter() <= ask.GetAfter() {
			return nil
		}
		ask.After = page.GetNextAfter()
	}
}

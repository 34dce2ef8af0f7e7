package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/decide"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
	"github.com/writ-pdp/writ/token"
)

type decideCmd struct {
	File string `arg:"" optional:"" help:"A request as JSON, in the form of writ.v1.DecideRequest; - is standard input. Leave it out when you describe the call with --tool."`

	Bundle *directory `help:"Directory of the bundle to decide by, or to complete the call from; without it, the one that comes with Writ." placeholder:"DIR"`
	Server string     `help:"Ask the server at this address in place of deciding here: HOST:PORT, or unix:PATH of its socket." placeholder:"ADDR"`
	Data   *directory `help:"Data directory of that server, where its credentials are. Default: ${default_data}." env:"WRIT_DATA_DIR" placeholder:"DIR"`

	clientFlags `embed:""`

	Tool      string   `help:"The tool that is called: SERVER/TOOL. Everything else of a valid call is filled in from the bundle." placeholder:"S/T" group:"Describe the call"`
	Arguments string   `help:"Its arguments, as JSON; without them, {}." placeholder:"JSON" group:"Describe the call"`
	Principal string   `help:"For whom." placeholder:"User::\"me\"" group:"Describe the call"`
	Actor     []string `help:"Who acts for them; may be repeated." sep:"none" placeholder:"Agent::\"x\"" group:"Describe the call"`
	Purpose   string   `help:"Purpose of the user's intent." group:"Describe the call"`
	Caller    string   `help:"Who asks, when deciding here: a caller of the bundle." group:"Describe the call"`

	Print bool `help:"Print the request that --tool describes, and decide nothing: a file for this command, grpcurl or ghz."`
	JSON  bool `help:"Print one JSON object."`

	loaded *bundle.Bundle // what load has built

	Explain bool `help:"Say what each control saw, what each policy said, and what would have to change. A server tells it to operators, with their secret or certificate."`
}

func (*decideCmd) Help() string {
	return `Examples:
  pdp decide --bundle DIR --principal 'User::"me"' --tool files/read_text_file --arguments '{"path":"/srv/work/a.txt"}'
  pdp decide --bundle DIR call.json
  pdp decide --server 127.0.0.1:7600 call.json

Deciding here records nothing and gives no authority; a server's answer does.
So what a file says of a token counts as verified here, whoever asks.
The exit code is 0 for ALLOW, 3 for DENY, 4 for REVIEW_REQUIRED, 1 when nothing could be decided.`
}

func (k *decideCmd) Run(c *console) error {
	proposal, err := k.proposal(c)
	if err != nil {
		return err
	}
	if k.Print {
		// protojson varies its spacing on purpose; people want it steady.
		data, err := protojson.Marshal(&writv1.DecideRequest{Proposal: proposal})
		if err != nil {
			return err
		}
		return printJSON(c.out, json.RawMessage(data))
	}
	if k.Server != "" {
		return k.ask(c, proposal)
	}
	b, err := k.load(c)
	if err != nil {
		return err
	}
	return k.here(c, b.Snapshot, proposal)
}

// load builds the bundle, once.
func (k *decideCmd) load(c *console) (*bundle.Bundle, error) {
	if k.loaded != nil {
		return k.loaded, nil
	}
	var err error
	k.loaded, err = loadBundle(c, k.Bundle)
	return k.loaded, err
}

// proposal reads the file, or makes the call that the flags describe.
func (k *decideCmd) proposal(c *console) (*writv1.Proposal, error) {
	if k.Tool != "" {
		if k.File != "" {
			return nil, usage("give a file or --tool, not both")
		}
		return k.described(c)
	}
	if k.Principal != "" || k.Arguments != "" || len(k.Actor) > 0 || k.Purpose != "" {
		return nil, usage("--principal, --arguments, --actor and --purpose describe a call together with --tool; a file says them itself")
	}
	if k.Print {
		return nil, usage("--print prints the request that --tool describes")
	}
	if k.File == "" {
		return nil, usage("give a file with a request (- for standard input), or describe the call with --tool")
	}
	data, err := readInput(c, k.File)
	if err != nil {
		return nil, err
	}
	r := &writv1.DecideRequest{}
	if err := protojson.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s is not a request in the form of writ.v1.DecideRequest, such as --print prints: %w", name(k.File), err)
	}
	return r.GetProposal(), nil
}

// described makes a valid call of the flags, as a scenario of the bundle.
func (k *decideCmd) described(c *console) (*writv1.Proposal, error) {
	b, err := k.load(c)
	if err != nil {
		return nil, err
	}
	arguments := k.Arguments
	if arguments == "" {
		arguments = "{}"
	}
	described := map[string]any{"name": "command line", "tool": k.Tool, "arguments_json": arguments, "expect": "ALLOW"}
	if k.Principal != "" {
		described["principal"] = k.Principal
	}
	if len(k.Actor) > 0 {
		described["actors"] = k.Actor
	}
	if k.Purpose != "" {
		described["purpose"] = k.Purpose
	}
	if k.Caller != "" {
		described["caller"] = k.Caller
	}
	text, err := json.Marshal(map[string]any{"cases": []any{described}})
	if err != nil {
		return nil, err
	}
	calls, faults := b.ReadScenarios(bundle.File{Name: "command line", Data: text})
	if calls == nil {
		for _, f := range faults.Errors() {
			f.File, f.Line, f.Column = "", 0, 0
			f.Field = strings.TrimPrefix(f.Field, "cases[0].")
			fmt.Fprintln(c.err, f)
		}
		return nil, fmt.Errorf("no call can be made of the flags and the bundle %s", place(k.Bundle))
	}
	call := calls[0].At(time.Now().UTC())
	call.Proposal.RequestID = "cli-" + rand.Text()
	return server.ProposalToProto(&call.Proposal)
}

// ask sends the proposal to a server.
func (k *decideCmd) ask(c *console, p *writv1.Proposal) error {
	secret := server.HostFile
	if k.Explain {
		secret = server.OperatorFile
	}
	client, err := k.dial(k.Server, k.Data, secret)
	if err != nil {
		return err
	}
	defer client.close()
	ctx, cancel := context.WithTimeout(c.ctx, 10*time.Second)
	defer cancel()
	if k.Explain {
		e, err := client.explain(ctx, p, k.Caller)
		if err != nil {
			return err
		}
		return k.explained(c.out, e)
	}
	r, err := client.decide(ctx, p)
	if err != nil {
		return err
	}
	if err := k.print(c.out, r); err != nil {
		return err
	}
	return outcomeExit(server.OutcomeFromProto(r.GetDecision().GetOutcome()))
}

// here decides by a bundle, without a server: nothing is recorded.
func (k *decideCmd) here(c *console, world *snapshot.Snapshot, p *writv1.Proposal) error {
	caller := world.LocalHost
	if k.Caller != "" {
		if caller = world.Callers[k.Caller]; caller == nil {
			return fmt.Errorf("the bundle has no caller %q", k.Caller)
		}
	}
	if caller == nil {
		return fmt.Errorf("the bundle has no host on this machine: name a caller with --caller")
	}
	if !world.May(caller, "Decide") {
		return fmt.Errorf("the bundle gives %s no right to propose: see `pdp check --effective` for who has it", caller.Name)
	}
	var d writ.Decision
	proposal, err := server.ProposalFromProto(p)
	// No authority comes of it, so what the file says of a token is taken as
	// verified; a token itself is verified.
	verifier := token.New(token.Config{})
	defer verifier.Close()
	if proposal.Token != nil {
		proposal.Token.Verified = true
	} else {
		proposal = verifier.Judge(c.ctx, world, caller, proposal, time.Now().UTC())
	}
	if fault, ok := errors.AsType[*server.FieldError](err); ok {
		d = writ.Decision{
			Code: writ.CodeMalformedProposal, Control: writ.ControlProposal, Explanation: fault.Reason, Field: fault.Field, Revision: world.Revision,
		}
	} else if err != nil {
		return err
	} else if k.Explain {
		return k.explained(c.out, server.ExplanationToProto(decide.Explain(world, caller, proposal, time.Now().UTC())))
	} else {
		d = decide.Decide(world, caller, proposal, time.Now().UTC(), nil)
	}
	if err := k.print(c.out, &writv1.DecideResponse{Decision: server.DecisionToProto(d)}); err != nil {
		return err
	}
	return outcomeExit(d.Outcome)
}

// explained shows an explanation, and ends as the decision would.
func (k *decideCmd) explained(w io.Writer, e *writv1.ExplainResponse) error {
	if k.JSON {
		data, err := protojson.Marshal(e)
		if err != nil {
			return err
		}
		if err := printJSON(w, json.RawMessage(data)); err != nil {
			return err
		}
	} else if err := printExplanation(w, e); err != nil {
		return err
	}
	return outcomeExit(server.OutcomeFromProto(e.GetDecision().GetOutcome()))
}

// print shows a decision, and what came with it. The token of a grant is a
// secret: JSON alone has it.
func (k *decideCmd) print(w io.Writer, r *writv1.DecideResponse) error {
	d := r.GetDecision()
	if k.JSON {
		return printDecided(w, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %s\n", headline(d), d.GetExplanation())
	if d.GetField() != "" {
		fmt.Fprintf(&b, "  at %s\n", d.GetField())
	}
	policies := func(what string, refs []*writv1.PolicyRef) {
		for _, p := range refs {
			fmt.Fprintf(&b, "  %s %s  %s:%d\n", what, p.GetId(), p.GetFile(), p.GetLine())
			if p.GetExplain() != "" && p.GetExplain() != d.GetExplanation() {
				fmt.Fprintf(&b, "      %s\n", p.GetExplain())
			}
		}
	}
	policies("policy", d.GetPolicies())
	policies("nearest permit", d.GetNearest())
	policies("could not evaluate", d.GetErrors())
	if g := r.GetGrant(); g != nil {
		fmt.Fprintf(&b, "  grant %s  good once, until %s; --json prints its token\n", g.GetId(), when(g.GetExpiresAt()))
	}
	if v := r.GetReview(); v != nil {
		fmt.Fprintf(&b, "  review %s  until %s; next: pdp review show %s\n", v.GetId(), when(v.GetExpiresAt()), v.GetId())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printDecided prints an answer as JSON, its members in the order of the API.
func printDecided(w io.Writer, r *writv1.DecideResponse) error {
	var out struct {
		DecisionID string          `json:"decisionId,omitempty"`
		Decision   json.RawMessage `json:"decision"`
		Grant      json.RawMessage `json:"grant,omitempty"`
		Review     json.RawMessage `json:"review,omitempty"`
	}
	out.DecisionID = r.GetDecisionId()
	var err error
	if out.Decision, err = protojson.Marshal(r.GetDecision()); err != nil {
		return err
	}
	if r.GetGrant() != nil {
		if out.Grant, err = protojson.Marshal(r.GetGrant()); err != nil {
			return err
		}
	}
	if r.GetReview() != nil {
		if out.Review, err = protojson.Marshal(r.GetReview()); err != nil {
			return err
		}
	}
	return printJSON(w, out)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/examples"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

type labCmd struct {
	JSON    bool `help:"Print one JSON object a case."`
	Verbose bool `short:"v" help:"Print the server's log to standard error."`
}

func (*labCmd) Help() string {
	return `The lab is the runnable part of the paper that Writ follows: a file reader and
a payment server, two calls that are safe, five that are not, and a payment of
ten times the amount that was allowed. Its bundle is examples/lab. A server is
started on a free loopback port with a log and credentials of its own, which are
removed afterwards.`
}

// labTimeout bounds the whole lab.
const labTimeout = time.Minute

func (l *labCmd) Run(c *console) error {
	files, err := embedded(examples.Lab())
	if err != nil {
		return err
	}
	b, faults := bundle.Build(files, nil)
	if b == nil {
		return faults
	}
	dir, err := os.MkdirTemp("", "writ-lab-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	logs := io.Discard
	if l.Verbose {
		logs = c.err
	}
	s, err := start(c.ctx, serviceConfig{source: sourceConfig{files: files}, data: dir, grpcAddr: "127.0.0.1:0", httpAddr: "127.0.0.1:0", log: newLogger(logs)})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.ctx, labTimeout)
	defer cancel()
	serving, stop := context.WithCancel(ctx)
	defer stop()
	return s.run(serving, func() error {
		err := l.cases(ctx, c.out, s, b)
		stop()
		return err
	})
}

// labFile has the lab's own calls; another one has what the lab leaves out.
const labFile = "scenarios/lab.yaml"

// What the lab calls the payment whose receipt is wrong, and that receipt.
const (
	labPayment = "small allowlisted payment"
	labReceipt = "mismatched effect receipt"
)

// cases sends each of the lab's calls to the server, then has a grant of it
// redeemed and tells what the lab says came of that, and prints the label of
// each and the code of the answer. An answer that the lab would not give is an
// error.
func (l *labCmd) cases(ctx context.Context, out io.Writer, s *service, b *bundle.Bundle) error {
	client, err := dial(s.grpc.Addr().String(), s.credentials.Dir(), server.HostFile)
	if err != nil {
		return err
	}
	defer client.close()
	if !l.JSON {
		fmt.Fprintf(out, "Secure MCP authority decisions\n%s\n", strings.Repeat("=", 38))
	}
	var wrong []error
	row := func(label string, want writ.Code, id string, d *writv1.Decision) error {
		if writ.Code(d.GetCode()) != want {
			wrong = append(wrong, fmt.Errorf("%s: the lab says %s", label, want))
		}
		if l.JSON {
			return json.NewEncoder(out).Encode(map[string]string{
				"case": label, "outcome": server.OutcomeFromProto(d.GetOutcome()).String(), "code": d.GetCode(), "decision_id": id,
			})
		}
		_, err := fmt.Fprintf(out, "%-31s %s\n", label, d.GetCode())
		return err
	}
	paying, granted := &writv1.Proposal{}, &writv1.DecideResponse{}
	for _, scenario := range b.Scenarios {
		if scenario.File != labFile {
			continue
		}
		scenario = scenario.At(time.Now().UTC())
		proposal, err := server.ProposalToProto(&scenario.Proposal)
		if err != nil {
			return err
		}
		answer, err := client.decide(ctx, proposal)
		if err != nil {
			return fmt.Errorf("%s: %w", scenario.Name, err)
		}
		if scenario.Name == labPayment {
			paying, granted = proposal, answer
		}
		if err := row(scenario.Name, scenario.Expect.Code, answer.GetDecisionId(), answer.GetDecision()); err != nil {
			return err
		}
	}
	verified, err := labEffect(ctx, s, paying, granted)
	if err != nil {
		return fmt.Errorf("%s: %w", labReceipt, err)
	}
	if err := row(labReceipt, writ.CodePostconditionFailed, verified.GetDecisionId(), verified.GetDecision()); err != nil {
		return err
	}
	if len(wrong) == 0 && !l.JSON {
		fmt.Fprintln(out, "\nAll positive and negative controls passed.")
	}
	return errors.Join(wrong...)
}

// labEffect is the payment server of the lab: it redeems the grant that came
// with the payment, and then reports ten times the amount.
func labEffect(ctx context.Context, s *service, p *writv1.Proposal, granted *writv1.DecideResponse) (*writv1.VerifyEffectResponse, error) {
	client, err := dial(s.grpc.Addr().String(), s.credentials.Dir(), server.ServerFile)
	if err != nil {
		return nil, err
	}
	defer client.close()
	redeemed, err := client.redeem(ctx, p, granted.GetGrant().GetToken())
	if err != nil {
		return nil, err
	}
	if d := redeemed.GetDecision(); d.GetCode() != string(writ.CodeRedeemed) {
		return nil, fmt.Errorf("the grant is not redeemed: %s: %s", d.GetCode(), d.GetExplanation())
	}
	return writv1.NewEnforcementServiceClient(client.conn).VerifyEffect(client.as(ctx), &writv1.VerifyEffectRequest{
		Redemption: redeemed.GetDecisionId(), ProposalDigest: granted.GetDecision().GetProposalDigest(), Observer: p.GetServer().GetId(),
		Status: writv1.EffectStatus_EFFECT_STATUS_OBSERVED, EffectId: "effect-17",
		ObservedJson: `{"recipient":"ACME-SUPPLIER-01","amount_gbp":1250.0}`, ObservedAt: timestamppb.Now(),
	})
}

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

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/examples"
	"github.com/writ-pdp/writ/server"
)

type labCmd struct {
	JSON    bool `help:"Print one JSON object a case."`
	Verbose bool `short:"v" help:"Print the server's log to standard error."`
}

func (*labCmd) Help() string {
	return `The lab is the runnable part of the paper that Writ follows: a file reader and
a payment server, two calls that are safe and five that are not. Its bundle is
examples/lab. A server is started on a free loopback port with a log and
credentials of its own, which are removed afterwards.`
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

// cases sends each of the lab's calls to the server, and prints its label and
// the code of the answer. An answer that the lab would not give is an error.
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
	for _, scenario := range b.Scenarios {
		scenario = scenario.At(time.Now().UTC())
		proposal, err := server.ProposalToProto(&scenario.Proposal)
		if err != nil {
			return err
		}
		answer, err := client.decide(ctx, proposal)
		if err != nil {
			return fmt.Errorf("%s: %w", scenario.Name, err)
		}
		d := answer.GetDecision()
		if l.JSON {
			err = json.NewEncoder(out).Encode(map[string]string{
				"case": scenario.Name, "outcome": server.OutcomeFromProto(d.GetOutcome()).String(), "code": d.GetCode(), "decision_id": answer.GetDecisionId(),
			})
		} else {
			_, err = fmt.Fprintf(out, "%-31s %s\n", scenario.Name, d.GetCode())
		}
		if err != nil {
			return err
		}
		if want := scenario.Expect.Code; writ.Code(d.GetCode()) != want {
			wrong = append(wrong, fmt.Errorf("%s: the lab says %s", scenario.Name, want))
		}
	}
	if len(wrong) == 0 && !l.JSON {
		fmt.Fprintln(out, "\nAll positive and negative controls passed.")
	}
	return errors.Join(wrong...)
}

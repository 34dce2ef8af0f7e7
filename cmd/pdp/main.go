// Command pdp is Writ: a policy decision point for MCP tool calls.
//
//	pdp lab        start a server, send it the lab's cases, print what it answers
//	pdp serve      answer proposals over gRPC and HTTP
//	pdp decide     decide one proposal, against a bundle or a server
//	pdp check      find every fault of a bundle and run its scenarios
//	pdp digest     print the digests that bind definitions and contracts
//	pdp revoke     withdraw a person, a token, a tool … at once, or give it back
//	pdp review     see what people are asked to agree to, and answer
//	pdp push       make a bundle the current one of an etcd cluster
//	pdp keys       make the keys of replicas that share an etcd cluster
//	pdp audit      verify, search, prove and export the log of decisions
//	pdp testcerts  make certificates to try mTLS with
//
// Exit codes: 0 done or ALLOW, 1 failed, 2 usage, 3 DENY, 4 REVIEW_REQUIRED.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit/ocsf"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitDeny   = 3
	exitReview = 4
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// console is where a command reads and prints.
type console struct {
	ctx context.Context
	in  io.Reader
	out io.Writer
	err io.Writer
}

// exit is an error that ends the command with a code of its own. What is to
// be said has been printed.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usage is an error in how the command was called.
type usage string

func (u usage) Error() string { return string(u) }

type commands struct {
	Serve     serveCmd     `cmd:"" help:"Answer proposals over gRPC and HTTP. Needs no configuration."`
	Lab       labCmd       `cmd:"" help:"Start a real server, send it the lab's cases over gRPC, and print what it answers."`
	Decide    decideCmd    `cmd:"" help:"Decide one proposal, against a bundle or a running server."`
	Check     checkCmd     `cmd:"" help:"Find every fault of a bundle, with its place, and run its scenarios."`
	Digest    digestCmd    `cmd:"" help:"Print the digests that bind tool definitions and contracts."`
	Revoke    revokeCmd    `cmd:"" help:"Withdraw a person, an agent, a token, a tool … at a running server, at once, or give it back."`
	Review    reviewCmd    `cmd:"" help:"See what people are asked to agree to, and approve or reject it."`
	Push      pushCmd      `cmd:"" help:"Make a bundle the current one for every server that follows an etcd cluster."`
	Keys      keysCmd      `cmd:"" help:"Make the keys of replicas that share an etcd cluster."`
	Audit     auditCmd     `cmd:"" help:"Verify, search, prove and export the log of decisions."`
	Testcerts testcertsCmd `cmd:"" help:"Make a CA, a server's certificate and callers' certificates, to try mTLS with: valid for a day, for tests only."`
	Version   versionCmd   `cmd:"" help:"Print the version."`
}

// run is main without the process: it parses args, runs one command and
// returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	c := &console{ctx: ctx, in: in, out: out, err: errs}
	ended := -1
	parser, err := kong.New(&commands{},
		kong.Name("pdp"),
		kong.Description("Writ decides whether an MCP tool call may be made: ALLOW, DENY or REVIEW_REQUIRED, and why.\n\n"+
			"Begin with `pdp lab`, then read examples/hello.\n\n"+
			"Exit codes: 0 done or ALLOW, 1 failed, 2 usage, 3 DENY, 4 REVIEW_REQUIRED."),
		kong.Writers(out, errs),
		kong.Exit(func(code int) { ended = code }),
		kong.Bind(c),
		kong.Vars{"default_data": "$XDG_STATE_HOME/writ or ~/.local/state/writ", "ocsf": ocsf.Version},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.UsageOnError(),
	)
	if err != nil {
		fmt.Fprintln(errs, "pdp:", err)
		return exitFailed
	}
	command, err := parser.Parse(args)
	if ended >= 0 { // --help was asked for and printed
		return ended
	}
	if err != nil {
		fmt.Fprintf(errs, "pdp: %v\nTry: pdp --help\n", err)
		return exitUsage
	}
	err = command.Run()
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[exit](err); ok {
		return int(code)
	}
	fmt.Fprintln(errs, "pdp:", err)
	if slices.Contains(args, "--json") {
		_ = printJSON(out, map[string]string{"error": err.Error()}) // it is on standard error, too
	}
	if _, ok := errors.AsType[usage](err); ok {
		return exitUsage
	}
	return exitFailed
}

// outcomeExit is the exit code of an outcome.
func outcomeExit(o writ.Outcome) error {
	switch o {
	case writ.Allow:
		return nil
	case writ.ReviewRequired:
		return exit(exitReview)
	case writ.Deny:
		return exit(exitDeny)
	}
	return exit(exitDeny)
}

type versionCmd struct{}

func (versionCmd) Run(c *console) error {
	_, err := fmt.Fprintln(c.out, "pdp", version())
	return err
}

// version is that of the module the command was built from.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}

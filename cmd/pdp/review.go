package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
)

// reviewCmd is a person's way to the reviews of a server.
type reviewCmd struct {
	List    reviewListCmd    `cmd:"" help:"The reviews that are open, the oldest first."`
	Show    reviewShowCmd    `cmd:"" help:"One review: everything that decides, and where it comes from."`
	Approve reviewApproveCmd `cmd:"" help:"Show a review, ask, and sign that one person agrees to exactly this."`
	Reject  reviewRejectCmd  `cmd:"" help:"Show a review, ask, and close it: nobody can approve it any more."`
}

func (*reviewCmd) Help() string {
	return `A call that people must agree to is answered REVIEW_REQUIRED, and waits here. What is
shown is what is signed, and nothing else: the values, where each was observed,
what the server holds of whom the call is about, and what can't be undone. If any
of it changes, the agreement is void.

What others wrote is never printed as it is: characters that are invisible, or
change the direction of writing, appear as \u202e.

  pdp review list
  pdp review show ID
  pdp review approve ID --as SUBJECT
  pdp review reject ID --as SUBJECT --reason "not this supplier"

Exit codes of approve and reject: 0 it is done; 3 or 4 it is not, and the code
that is printed says why; 1 nobody answered, you or the server.`
}

// reviewFlags say which server is asked, and how the answer is printed.
type reviewFlags struct {
	Server string     `help:"Address of the server: HOST:PORT, or unix:PATH of its socket." default:"127.0.0.1:7600" env:"WRIT_GRPC_ADDR" placeholder:"ADDR"`
	Data   *directory `help:"Data directory of that server, where its credentials are. Default: ${default_data}." env:"WRIT_DATA_DIR" placeholder:"DIR"`
	JSON   bool       `help:"Print JSON."`

	clientFlags `embed:""`
}

// ask calls f with a client of the server's ApprovalService.
func (f *reviewFlags) ask(c *console, call func(context.Context, writv1.ApprovalServiceClient) error) error {
	client, err := f.dial(f.Server, f.Data, server.OperatorFile)
	if err != nil {
		return err
	}
	defer client.close()
	return call(client.as(c.ctx), writv1.NewApprovalServiceClient(client.conn))
}

// get asks for one review.
func get(ctx context.Context, reviews writv1.ApprovalServiceClient, id string) (*writv1.Review, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := reviews.GetReview(ctx, &writv1.GetReviewRequest{Id: id})
	if err != nil {
		return nil, fmt.Errorf("the server could not show the review: %w", err)
	}
	if r.GetReview() == nil {
		return nil, errors.New("the server sent no review")
	}
	return r.GetReview(), nil
}

func printProto(w io.Writer, m proto.Message) error {
	data, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	return printJSON(w, json.RawMessage(data))
}

type reviewListCmd struct {
	Closed bool   `help:"Also those that are approved, rejected or over, as long as they are kept."`
	Limit  uint32 `help:"At most so many, up to 1000." default:"100" placeholder:"N"`

	reviewFlags `embed:""`
}

func (k *reviewListCmd) Run(c *console) error {
	return k.ask(c, func(ctx context.Context, reviews writv1.ApprovalServiceClient) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		r, err := reviews.ListReviews(ctx, &writv1.ListReviewsRequest{Closed: k.Closed, Limit: k.Limit})
		if err != nil {
			return fmt.Errorf("the server could not list the reviews: %w", err)
		}
		if k.JSON {
			return printProto(c.out, r)
		}
		return printReviews(c.out, r)
	})
}

type reviewShowCmd struct {
	ID string `arg:"" help:"The review's id, as list prints it."`

	reviewFlags `embed:""`
}

func (k *reviewShowCmd) Run(c *console) error {
	return k.ask(c, func(ctx context.Context, reviews writv1.ApprovalServiceClient) error {
		r, err := get(ctx, reviews, k.ID)
		if err != nil {
			return err
		}
		if k.JSON {
			return printProto(c.out, r)
		}
		return printReview(c.out, r)
	})
}

// personFlags say who answers a review.
type personFlags struct {
	As        string `help:"Who answers: the subject of their tokens. Required." required:"" placeholder:"SUBJECT" group:"Who answers"`
	Issuer    string `help:"The issuer of their tokens. Default: that of the person for whom the call is." placeholder:"ISSUER" group:"Who answers"`
	Tenant    string `help:"Their tenant. Default: with the default issuer, that of the person for whom the call is." placeholder:"TENANT" group:"Who answers"`
	TokenFile string `help:"File with their access token, for this decision point. Needed where the bundle has the keys of their issuer." type:"existingfile" placeholder:"FILE" group:"Who answers"`
}

// maxToken is how large a file with a token may be, in bytes.
const maxToken = 64 << 10

// who is the person that answers r, with their token.
func (f *personFlags) who(r *writv1.Review) (*writv1.Principal, string, error) {
	p := &writv1.Principal{Issuer: f.Issuer, Subject: f.As, Tenant: f.Tenant}
	if f.Issuer == "" {
		p.Issuer = r.GetPrincipal().GetIssuer()
		if f.Tenant == "" {
			p.Tenant = r.GetPrincipal().GetTenant()
		}
	}
	if f.TokenFile == "" {
		return p, "", nil
	}
	file, err := os.Open(f.TokenFile)
	if err != nil {
		return nil, "", fmt.Errorf("reading the access token: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxToken+1))
	if err != nil {
		return nil, "", fmt.Errorf("reading the access token: %w", err)
	}
	if len(text) > maxToken {
		return nil, "", fmt.Errorf("the file %s is larger than any access token", f.TokenFile)
	}
	return p, strings.TrimSpace(string(text)), nil
}

// confirm asks at the terminal whether the person means it: they type word.
func confirm(c *console, w io.Writer, word, question string) error {
	fmt.Fprintf(w, "\n%s\nType %s to go on: ", question, word)
	line, err := bufio.NewReader(io.LimitReader(c.in, 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if strings.TrimSpace(line) != word {
		fmt.Fprintln(w)
		return errors.New("nothing was signed or closed: the answer was another one")
	}
	return nil
}

type reviewApproveCmd struct {
	ID     string `arg:"" help:"The review's id, as list prints it."`
	Yes    bool   `help:"Don't ask. Only with --digest: what is agreed to has been read elsewhere."`
	Digest string `help:"The digest of the review that the person has read; if it is another one now, nothing is signed." placeholder:"SHA256:…"`

	personFlags `embed:""`
	reviewFlags `embed:""`
}

func (k *reviewApproveCmd) Run(c *console) error {
	if k.Yes && k.Digest == "" {
		return usage("--yes wants --digest: without it nobody has seen what is agreed to")
	}
	return k.ask(c, func(ctx context.Context, reviews writv1.ApprovalServiceClient) error {
		r, err := get(ctx, reviews, k.ID)
		if err != nil {
			return err
		}
		if k.Digest != "" && k.Digest != r.GetReviewDigest() {
			return fmt.Errorf("the review is another one now, of the digest %s: read it again (pdp review show %s)", visible(r.GetReviewDigest()), visible(k.ID))
		}
		person, token, err := k.who(r)
		if err != nil {
			return err
		}
		if !k.Yes {
			if err := k.consent(c, r, person); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		done, err := reviews.Approve(ctx, &writv1.ApproveRequest{Id: r.GetId(), ReviewDigest: r.GetReviewDigest(), Approver: person, AccessToken: token})
		if err != nil {
			return fmt.Errorf("the server could not approve: %w", err)
		}
		if k.JSON {
			err = printProto(c.out, done)
		} else {
			err = printAnswer(c.out, "approved", person, done.GetDecision(), done.GetReview())
		}
		if err != nil {
			return err
		}
		return outcomeExit(server.OutcomeFromProto(done.GetDecision().GetOutcome()))
	})
}

// consent shows the review and asks. With --json that goes to standard error.
func (k *reviewApproveCmd) consent(c *console, r *writv1.Review, person *writv1.Principal) error {
	w := c.out
	if k.JSON {
		w = c.err
	}
	if err := printReview(w, r); err != nil {
		return err
	}
	if r.GetState() != writv1.ReviewState_REVIEW_STATE_OPEN && r.GetState() != writv1.ReviewState_REVIEW_STATE_APPROVED {
		return fmt.Errorf("the review is %s: nobody can approve it", stateText(r.GetState()))
	}
	question := "You agree, as " + personText(person) + ", to exactly this."
	if !r.GetReversible() && r.GetEffect() != "read" && r.GetEffect() != "pure" {
		question += " It cannot be undone."
	}
	return confirm(c, w, "approve", question)
}

type reviewRejectCmd struct {
	ID     string `arg:"" help:"The review's id, as list prints it."`
	Reason string `help:"Why, for those who proposed, at most 1024 bytes." placeholder:"TEXT"`
	Yes    bool   `help:"Don't show it, and don't ask."`

	personFlags `embed:""`
	reviewFlags `embed:""`
}

func (k *reviewRejectCmd) Run(c *console) error {
	return k.ask(c, func(ctx context.Context, reviews writv1.ApprovalServiceClient) error {
		r, err := get(ctx, reviews, k.ID)
		if err != nil {
			return err
		}
		person, token, err := k.who(r)
		if err != nil {
			return err
		}
		if !k.Yes {
			w := c.out
			if k.JSON {
				w = c.err
			}
			if err := printReview(w, r); err != nil {
				return err
			}
			if err := confirm(c, w, "reject", "You reject this, as "+personText(person)+", for everybody."); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		done, err := reviews.Reject(ctx, &writv1.RejectRequest{Id: r.GetId(), Approver: person, AccessToken: token, Reason: k.Reason})
		if err != nil {
			return fmt.Errorf("the server could not reject: %w", err)
		}
		if k.JSON {
			err = printProto(c.out, done)
		} else {
			err = printAnswer(c.out, "rejected", person, done.GetDecision(), done.GetReview())
		}
		if err != nil {
			return err
		}
		return outcomeExit(server.OutcomeFromProto(done.GetDecision().GetOutcome()))
	})
}

package story

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/protobuf/types/known/timestamppb"

	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

// Host is an MCP host that asks Writ before each call.
type Host struct {
	PDP       writv1.DecisionServiceClient
	Server    *writv1.ServerRef
	Principal *writv1.Principal
	Agent     *writv1.Actor
	Token     string // the user's access token for the server

	session *mcp.ClientSession
	tools   map[string]*mcp.Tool
}

// Connect connects the host to the MCP server and reads its tools.
func (h *Host) Connect(ctx context.Context, client *http.Client) error {
	bearing := *client
	bearing.Transport = bearer{h.Token, client.Transport}
	transport := &mcp.StreamableClientTransport{
		Endpoint: h.Server.GetEndpoint(), HTTPClient: &bearing, DisableStandaloneSSE: true,
		MaxRetries: -1, // a call of a tool is never repeated blindly
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "ap-host", Version: "1"}, nil).Connect(ctx, transport, nil)
	if err != nil {
		return err
	}
	h.session, h.tools = session, map[string]*mcp.Tool{}
	for tool, err := range session.Tools(ctx, nil) {
		if err != nil {
			return err
		}
		h.tools[tool.Name] = tool
	}
	return nil
}

// Close ends the connection.
func (h *Host) Close() error { return h.session.Close() }

type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// Propose makes a proposal of a call, with the tool as the server describes it
// now.
func (h *Host) Propose(tool string, arguments map[string]any, purpose string, evidence []*writv1.Evidence) (*writv1.Proposal, error) {
	definition, err := json.Marshal(h.tools[tool])
	if err != nil || h.tools[tool] == nil {
		return nil, errors.Join(fmt.Errorf("the server has no tool %q", tool), err)
	}
	text, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &writv1.Proposal{
		RequestId: "req-" + rand.Text(),
		Intent: &writv1.Intent{
			Id: "intent-" + rand.Text(), Purpose: purpose, DeclaredAt: timestamppb.New(now.Add(-time.Minute)), ExpiresAt: timestamppb.New(now.Add(time.Hour)),
		},
		Principal: h.Principal, Actors: []*writv1.Actor{h.Agent}, AccessToken: h.Token,
		Server: h.Server, Tool: tool, DefinitionJson: string(definition), ArgumentsJson: string(text), Evidence: evidence,
	}, nil
}

// Decide asks whether the call may be made.
func (h *Host) Decide(ctx context.Context, p *writv1.Proposal) (*writv1.DecideResponse, error) {
	return h.PDP.Decide(ctx, &writv1.DecideRequest{Proposal: p})
}

// Call makes a call with its grant. An answer that is an error of the tool is an
// answer.
func (h *Host) Call(ctx context.Context, tool, arguments, grant string) (*mcp.CallToolResult, error) {
	params := &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)}
	if grant != "" {
		params.Meta = mcp.Meta{GrantMeta: grant}
	}
	return h.session.CallTool(ctx, params)
}

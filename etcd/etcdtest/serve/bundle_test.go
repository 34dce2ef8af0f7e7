package serve_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-pdp/writ/bundle"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
)

const (
	issuer = "https://login.example"
	store  = "store" // the server
	tools  = 32      // store/put0 …: anybody may call them
	large  = "large" // a tool for which somebody else must agree

	packageHash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

// definition is that of a tool.
func definition(tool string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}`, tool)
}

func putTool(i int) string { return fmt.Sprintf("put%d", i%tools) }

// version is a bundle, other than every other version in a policy that matters
// to nobody. lines are those of revocations.yaml.
func version(n int, lines ...string) []bundle.File {
	var contract, definitions strings.Builder
	contract.WriteString("id: store\npackage_hash: " + packageHash + "\ntoken: none\ntools:\n")
	for i := range tools + 1 {
		tool, comma := putTool(i), ","
		if i == tools {
			tool, comma = large, ""
		}
		fmt.Fprintf(&contract, "  %s: {effect: write, reversible: false, no_evidence: nothing here is real}\n", tool)
		definitions.WriteString(definition(tool) + comma)
	}
	files := []bundle.File{
		{Name: "issuers.yaml", Data: []byte("issuers:\n- issuer: " + issuer + "\n  principal: 'User::\"{sub}\"'\n")},
		{Name: "servers/store.yaml", Data: []byte(contract.String())},
		{Name: "servers/store.tools.json", Data: []byte(`{"tools": [` + definitions.String() + `]}`)},
		{Name: "policies/store.cedar", Data: fmt.Appendf(nil, `@id("put")
permit (principal, action, resource);
@id("four-eyes")
@review("1")
@explain("Somebody else looks at large ones.")
forbid (principal, action == Action::"store/large", resource);
@id("anybody-approves")
permit (principal is User, action in Action::"approve", resource);
@id("nobody-%d")
permit (principal == User::"nobody-%d", action, resource);
`, n, n)},
	}
	if len(lines) > 0 {
		files = append(files, bundle.File{Name: "revocations.yaml", Data: []byte("revocations:\n" + strings.Join(lines, ""))})
	}
	return files
}

// write writes a bundle to a directory.
func write(t testing.TB, files []bundle.File) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// propose returns the proposal that somebody calls a tool about a name.
func propose(subject, tool, name string) *writv1.Proposal {
	return &writv1.Proposal{
		RequestId: "r-" + name, Principal: &writv1.Principal{Issuer: issuer, Subject: subject},
		Server: &writv1.ServerRef{Id: store, PackageHash: packageHash}, Tool: tool, DefinitionJson: definition(tool),
		ArgumentsJson: fmt.Sprintf(`{"name":%q}`, name),
	}
}

// redemption is the server's own view of a proposal, with its grant.
func redemption(p *writv1.Proposal, grant, attempt string) *writv1.RedeemRequest {
	return &writv1.RedeemRequest{
		Grant: grant, Server: store, Tool: p.GetTool(), ArgumentsJson: p.GetArgumentsJson(), Principal: p.GetPrincipal(), RedemptionId: attempt,
	}
}

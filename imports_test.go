package writ_test

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/writ-pdp/writ"

// walls lists what packages may not reach, at any distance, and why.
var walls = []struct {
	rooms  []string // packages, relative to the module
	barred []string // packages or prefixes ending in /
	why    string
}{
	{
		[]string{"decide"},
		[]string{"os/exec", "log/slog", "go.opentelemetry.io/", "google.golang.org/", "buf.build/", module + "/gen/", module + "/audit", module + "/bundle", module + "/server"},
		"a decision is pure: it knows no wire, no file and no log",
	},
	{
		[]string{"canon"},
		[]string{module + "/"},
		"canon is a leaf",
	},
	{
		[]string{"."},
		[]string{module + "/contract", module + "/policy", module + "/decide", "github.com/cedar-policy/", "google.golang.org/"},
		"the nouns know nothing of what is built on them",
	},
	{
		[]string{"definition", "target"},
		[]string{module + "/contract", module + "/policy", module + "/entities", "google.golang.org/", "github.com/cedar-policy/"},
		"they are below contracts",
	},
	{
		[]string{"entities"},
		[]string{module + "/revocation", module + "/policy", module + "/contract"},
		"entities and revocations do not know each other, and no rules",
	},
	{
		[]string{"revocation"},
		[]string{module + "/entities", module + "/policy", module + "/contract"},
		"entities and revocations do not know each other, and no rules",
	},
	{
		[]string{"policy", "contract", "snapshot"},
		[]string{module + "/bundle", module + "/decide", module + "/pdp", module + "/gen/", "google.golang.org/"},
		"imports run one way, and Protobuf stays at its doors",
	},
	{
		[]string{"pdp"},
		[]string{module + "/server", module + "/bundle", module + "/gen/", "google.golang.org/grpc"},
		"pdp makes answers; how they travel is the server's",
	},
	{
		[]string{"pdp", "server"},
		[]string{"go.opentelemetry.io/otel/sdk/", "go.opentelemetry.io/otel/exporters/", module + "/telemetry"},
		"they know that there are traces, not where spans go",
	},
	{
		[]string{"server"},
		[]string{module + "/bundle", module + "/gen/writ/bundle/"},
		"the server's door is writ.v1 alone",
	},
	{
		[]string{"bundle"},
		[]string{module + "/server", module + "/decide", module + "/pdp", module + "/gen/writ/v1", "google.golang.org/grpc"},
		"the bundle's door is writ.bundle.v1 alone",
	},
	{
		[]string{"revocation"},
		[]string{"os/exec", "log/slog", "google.golang.org/"},
		"the revocation log is a file and a view of it, and nothing that speaks",
	},
	{
		[]string{"audit", "audit/tree", "audit/segment", "audit/verify", "audit/forward"},
		[]string{module + "/pdp", module + "/server", module + "/bundle", module + "/gen/", "google.golang.org/"},
		"the log is files: it knows neither who answers nor how answers travel",
	},
	{
		[]string{"audit/tree", "audit/segment"},
		[]string{module + "/audit"},
		"the log's files can be read without the log",
	},
	{
		[]string{"audit/verify", "audit/forward"},
		[]string{module + "/audit"},
		"who verifies a log trusts nothing of it",
	},
	{
		[]string{"audit/verifytest"},
		[]string{module + "/", "golang.org/x/mod/"},
		"the second verifier shares no code with the first",
	},
	{
		[]string{"audit/otlplog"},
		[]string{module + "/pdp", module + "/server", module + "/gen/"},
		"an exporter reads the log, and nothing that writes it",
	},
	{
		[]string{"token"},
		[]string{module + "/decide", module + "/bundle", module + "/pdp", module + "/gen/", "google.golang.org/"},
		"verifying a token decides nothing",
	},
	{
		[]string{"keyring"},
		[]string{module + "/grant", module + "/approval", module + "/snapshot", module + "/pdp", "net/http", "log/slog", "google.golang.org/"},
		"keys know neither what they sign nor how it travels",
	},
	{
		[]string{"grant", "approval"},
		[]string{module + "/decide", module + "/bundle", module + "/pdp", module + "/server", module + "/gen/", "google.golang.org/"},
		"grants and approvals are judged by who composes them, and know no wire",
	},
	{
		[]string{"grant"},
		[]string{module + "/approval"},
		"that a person agreed and that a call may be made are two things",
	},
	{
		[]string{"approval"},
		[]string{module + "/grant"},
		"that a person agreed and that a call may be made are two things",
	},
	{
		[]string{"effect"},
		[]string{module + "/grant", module + "/approval", module + "/decide", module + "/snapshot", module + "/pdp", "google.golang.org/"},
		"what happened is compared with what was authorised, whoever keeps either",
	},
	{
		[]string{"etcd"},
		[]string{module + "/decide", module + "/pdp", module + "/server", module + "/gen/writ/v1"},
		"a source of worlds decides nothing",
	},
	{
		[]string{"mutation"},
		[]string{module + "/decide", module + "/server", module + "/pdp", module + "/gen/writ/v1", "google.golang.org/grpc"},
		"mutation tests know no decider: whoever runs them gives one",
	},
}

// onlyFor lists packages that nobody else may import directly.
var onlyFor = []struct {
	room string
	for_ []string
	why  string
}{
	{module + "/decide", []string{"pdp", "cmd/pdp", "benchmarks", "benchmarks/cpu"}, "only pdp makes answers; the command decides locally and gives no authority"},
	{module + "/grant", []string{"pdp", "etcd", "cmd/pdp", "benchmarks", "grant/ledgertest"}, "only pdp mints and redeems; etcd keeps the ledger, the command opens it"},
	{module + "/keyring", []string{"pdp", "grant", "approval", "etcd", "cmd/pdp", "benchmarks", "keyring/keyringtest"}, "keys are where something is signed or opened"},
	{module + "/gen/writ/v1", []string{"server", "cmd/pdp", "benchmarks", "benchmarks/cpu", "benchmarks/emptyhandler", "pdptest"}, "one door for the wire"},
	{module + "/gen/writ/audit/v1", []string{"audit/ocsf"}, "one door for records"},
	{module + "/gen/writ/bundle/v1", []string{"bundle"}, "one door for files"},
	{"connectrpc.com/vanguard", []string{"server"}, "JSON comes in by one door"},
	{"go.opentelemetry.io/otel/sdk/trace", []string{"telemetry"}, "one place sets tracing up"},
	{"go.opentelemetry.io/otel/sdk/metric", []string{"telemetry"}, "one place sets metrics up"},
	{"go.opentelemetry.io/otel/exporters/prometheus", []string{"telemetry"}, "one place says how metrics are read"},
	{"go.opentelemetry.io/otel/sdk/log", []string{"audit/otlplog"}, "one place sends records to a collector"},
	{"github.com/fsnotify/fsnotify", []string{"bundle"}, "one place watches files"},
	{"go.etcd.io/etcd/client/v3", []string{"etcd"}, "one room knows etcd"},
	{"github.com/go-jose/go-jose/v4", []string{"token"}, "one place reads tokens"},
	{"buf.build/go/protoyaml", []string{"bundle"}, "files that people write are read in one place"},
	{"github.com/santhosh-tekuri/jsonschema/v6", []string{"contract"}, "one place checks schemas"},
}

type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

// TestImports holds the walls of the house.
func TestImports(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps", "./...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]listed{}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		room := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if room == "" {
			room = "."
		}
		packages[room] = p
	}
	for _, wall := range walls {
		for _, room := range wall.rooms {
			p, ok := packages[room]
			if !ok {
				t.Errorf("there is no room %q", room)
			}
			for _, dep := range p.Deps {
				for _, barred := range wall.barred {
					if dep == barred || strings.HasSuffix(barred, "/") && strings.HasPrefix(dep, barred) {
						t.Errorf("%s reaches %s: %s", room, dep, wall.why)
					}
				}
			}
		}
	}
	for _, only := range onlyFor {
		used := false
		for room, p := range packages {
			if !slices.Contains(p.Imports, only.room) {
				continue
			}
			used = true
			if !slices.Contains(only.for_, room) {
				t.Errorf("%s imports %s: %s", room, only.room, only.why)
			}
		}
		if !used && only.room != module+"/decide" {
			t.Errorf("nobody imports %s: the wall is stale", only.room)
		}
	}
}

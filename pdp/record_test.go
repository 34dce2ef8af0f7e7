package pdp_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/audit"
	"github.com/writ-pdp/writ/bundle"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/decide"
	"github.com/writ-pdp/writ/pdp"
	"github.com/writ-pdp/writ/snapshot"
)

// bank is a bundle whose tools have loggable and secret arguments.
func bank(t testing.TB) *snapshot.Snapshot {
	t.Helper()
	b, faults := bundle.Build([]bundle.File{
		{Name: "servers/bank.yaml", Data: []byte(`
id: bank
endpoint: https://bank.example/mcp
token: none
tools:
  pay:
    effect: write
    no_evidence: a test
    resource: {entity: Account, id: "{branch}:{account}", may_be_new: true}
    loggable: [amount, "a/b", gone, order.lines]
    secret: [account, order.code]
  show:
    effect: read
    resource: {entity: Account, id: "{branch}", may_be_new: true}
    secret: [account]
`)},
		{Name: "servers/bank.tools.json", Data: []byte(`[
{"name":"pay","inputSchema":{"type":"object","required":["branch","account","amount"],"properties":{"branch":{"type":"string"},"account":{"type":"string"},
	"amount":{"type":"number"},"a/b":{"type":"string"},"gone":{"type":"string"},"note":{"type":"string"},
	"order":{"type":"object","properties":{"code":{"type":"string"},"lines":{"type":"array","items":{"type":"string"}}}}}}},
{"name":"show","inputSchema":{"type":"object","required":["branch"],"properties":{"branch":{"type":"string"},"account":{"type":"string"}}}}]`)},
		{Name: "schema.cedarschema", Data: []byte("entity Account;")},
		{Name: "policies/all.cedar", Data: []byte(`@id("all") permit (principal, action in Action::"bank", resource);` + "\n" +
			`@id("big") @review("1") forbid (principal, action == Action::"bank/pay", resource) when { context.arguments.amount.greaterThan(decimal("1000.0")) };` + "\n" +
			`@id("people") permit (principal, action == Action::"approve:bank/pay", resource);`)},
	}, nil)
	if b == nil {
		t.Fatal(faults)
	}
	return b.Snapshot
}

// payment is a call of bank's tool with these arguments.
func payment(world *snapshot.Snapshot, tool, arguments string) *writ.Proposal {
	p := &writ.Proposal{
		RequestID: "r-1", Principal: writ.Principal{Issuer: "local", Subject: "ann", Tenant: "acme"},
		Server: writ.ServerRef{ID: "bank", Endpoint: "https://bank.example/mcp"}, Tool: tool, ArgumentsJSON: []byte(arguments),
		Evidence: []writ.Evidence{
			{Argument: "/account", ValueJSON: []byte(`"secret-9"`), Kind: writ.SourceUser, Reference: "crm:secret-9"},
			{Argument: "/branch", ValueJSON: []byte(`"north"`), Kind: writ.SourceDocument, Reference: "doc:1"},
			{Argument: "/order", ValueJSON: []byte(`{}`), Kind: writ.SourceModel, Reference: "doc:2"},
			{Argument: "/other", ValueJSON: []byte(`1`), Kind: writ.SourceModel, Reference: "doc:3"},
		},
	}
	if c := world.Contract("bank", tool); c != nil {
		p.DefinitionDigest = c.Tool.Digest
	}
	return p
}

const fullPayment = `{"branch":"north","account":"secret-9","amount":900,"a/b":"told","order":{"code":"secret-8","lines":["x","y"]}}`

// decided returns what a proposal is answered and the record of it.
func decided(t testing.TB, world *snapshot.Snapshot, proposal *writ.Proposal) (writ.Decision, audit.Record) {
	t.Helper()
	log := &memory{}
	a, err := newPDP(t, log, holding(world)).Decide(t.Context(), world.LocalHost, proposal, pdp.Ask{})
	if err != nil || len(log.records) != 1 {
		t.Fatalf("%d records, %v", len(log.records), err)
	}
	return a.Decision(), log.records[0]
}

// TestRecordOfValues: what a record tells of a call is what its contract says.
func TestRecordOfValues(t *testing.T) {
	world := bank(t)
	d, r := decided(t, world, payment(world, "pay", fullPayment))
	if d.Code != writ.CodeAllow {
		t.Fatalf("%s: %s", d.Code, d.Explanation)
	}
	if want := []audit.Argument{{Pointer: "/amount", JSON: "900"}, {Pointer: "/a~1b", JSON: `"told"`}, {Pointer: "/order/lines", JSON: `["x","y"]`}}; !slices.Equal(r.Arguments, want) {
		t.Errorf("arguments %+v, want %+v", r.Arguments, want)
	}
	if want := []string{`Account::"north:secret-9"`}; !r.SecretResources || !slices.Equal(r.Resources, want) {
		t.Errorf("resources %q, secret %t", r.Resources, r.SecretResources)
	}
	want := []audit.EvidenceRef{
		{Argument: "/account", Kind: "user", Reference: "crm:secret-9", Secret: true}, {Argument: "/branch", Kind: "document", Reference: "doc:1"},
		{Argument: "/order", Kind: "model", Reference: "doc:2", Secret: true}, {Argument: "/other", Kind: "model", Reference: "doc:3", Secret: true},
	}
	if !slices.Equal(r.Evidence, want) {
		t.Errorf("evidence %+v", r.Evidence)
	}
	if r.Tenant != "acme" || r.Redacted || r.ContractDigest != d.ContractDigest.String() || r.CallDigest != d.CallDigest.String() || r.ProposalDigest != d.ProposalDigest.String() {
		t.Errorf("%+v", r)
	}

	// A secret that is no part of the target hides no target.
	if d, r = decided(t, world, payment(world, "show", `{"branch":"north","account":"secret-9"}`)); d.Code != writ.CodeAllow || r.SecretResources || r.Arguments != nil {
		t.Errorf("%s: %+v", d.Code, r)
	}
	if d, r = decided(t, world, payment(world, "pay", `{"branch":"north","account":"secret-9","amount":1001}`)); r.ReviewDigest == "" || r.ReviewDigest != d.ReviewDigest.String() {
		t.Errorf("%s: review %q", d.Code, r.ReviewDigest)
	}
}

// TestRecordBeforeTheContract: where nothing says what may be told, no value is
// told, and no source's name plainly.
func TestRecordBeforeTheContract(t *testing.T) {
	world := bank(t)
	for name, edit := range map[string]func(*writ.Proposal){
		"unknown server":     func(p *writ.Proposal) { p.Server.ID = "other" },
		"another endpoint":   func(p *writ.Proposal) { p.Server.Endpoint = "https://other.example/mcp" },
		"unknown tool":       func(p *writ.Proposal) { p.Tool = "other" },
		"changed definition": func(p *writ.Proposal) { p.DefinitionDigest = canon.Sum([]byte("x")) },
		"malformed":          func(p *writ.Proposal) { p.ArgumentsJSON = []byte(`{"amount":900,"amount":900}`) },
	} {
		p := payment(world, "pay", fullPayment)
		edit(p)
		d, r := decided(t, world, p)
		if d.Outcome != writ.Deny || r.Redacted || len(r.Arguments)+len(r.Resources) > 0 || len(r.Evidence) != 4 {
			t.Errorf("%s: %s: %+v", name, d.Code, r)
		}
		if slices.ContainsFunc(r.Evidence, func(e audit.EvidenceRef) bool { return !e.Secret }) {
			t.Errorf("%s: evidence %+v", name, r.Evidence)
		}
	}
	// Arguments that their schema refuses could be anything.
	d, r := decided(t, world, payment(world, "pay", `{"branch":"north","account":"secret-9","amount":"secret-9","a/b":"told"}`))
	if d.Code != writ.CodeInvalidArguments || r.Arguments != nil || r.Evidence[1].Secret {
		t.Errorf("%s: %+v", d.Code, r)
	}
	// And what nobody could read has no evidence that counts.
	log := &memory{}
	p := newPDP(t, log, holding(world))
	if _, err := p.Refuse(t.Context(), world.LocalHost, payment(world, "pay", fullPayment), "x", "It is wrong."); err != nil || !log.records[0].Evidence[1].Secret {
		t.Errorf("%v: %+v", err, log.records)
	}
}

// TestRecordOfTargets: the target at which TARGET ended is the last one told.
func TestRecordOfTargets(t *testing.T) {
	world := lab(t).Snapshot
	for _, s := range lab(t).Scenarios {
		s := s.At(time.Now())
		log := &memory{}
		if _, err := newPDP(t, log, holding(world)).Decide(t.Context(), world.Callers[s.Caller], &s.Proposal, pdp.Ask{}); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(log.records[0].Resources, "") {
			t.Errorf("%s: %q", s.Name, log.records[0].Resources)
		}
	}
}

// TestNoSecretInTheLog: on the disk no secret stands anywhere, whatever is
// answered, and of a loggable value only what is called so.
func TestNoSecretInTheLog(t *testing.T) {
	world := bank(t)
	var all []audit.Record
	for _, arguments := range []string{
		fullPayment, `{"branch":"north","account":"secret-9","amount":1001}`, `{"branch":"north","account":"secret/9","amount":1}`,
		`{"branch":"north","account":"secret-9","amount":1,"note":"secret-7"}`, `{"branch":"north","account":"secret-9","amount":"secret-6"}`,
		`{"branch":"north","account":["secret-9"],"amount":1}`, `{"branch":"north","account":"secret-9","amount":1,"secret-5":"secret-4"}`,
		`{"branch":"north","account":"secret-9"}`, `{"secret-9"`,
	} {
		for _, tool := range []string{"pay", "show", "other"} {
			_, r := decided(t, world, payment(world, tool, arguments))
			all = append(all, r)
		}
	}
	written := onDisk(t, all)
	for _, secret := range []string{"secret-", "secret/"} {
		if i := bytes.Index(written, []byte(secret)); i >= 0 {
			t.Errorf("a secret is in the log: …%s…", written[max(0, i-300):min(len(written), i+100)])
		}
	}
	if n := bytes.Count(written, []byte(`"/a~1b":"\"told\""`)); n != 1 {
		t.Errorf("the loggable value is told %d times", n)
	}
}

// TestDigestsUnderTheKey: no digest over guessable values stands in the log
// plainly.
func TestDigestsUnderTheKey(t *testing.T) {
	world := bank(t)
	_, r := decided(t, world, payment(world, "pay", `{"branch":"north","account":"secret-9","amount":1001}`))
	p := payment(world, "pay", fullPayment)
	p.AccessToken = []byte("eyJ.raw.token")
	_, withToken := decided(t, world, p)
	r.TokenDigest = withToken.TokenDigest
	written := onDisk(t, []audit.Record{r})
	if r.TokenDigest != canon.Sum(p.AccessToken).String() {
		t.Errorf("token digest %q", r.TokenDigest)
	}
	for name, digest := range map[string]string{"call": r.CallDigest, "proposal": r.ProposalDigest, "review": r.ReviewDigest, "token": r.TokenDigest} {
		if digest == "" || bytes.Contains(written, []byte(strings.TrimPrefix(digest, "sha256:"))) {
			t.Errorf("%s digest %q", name, digest)
		}
	}
	for name, digest := range map[string]string{"contract": r.ContractDigest, "policy": r.PolicyDigest} {
		if digest == "" || !bytes.Contains(written, []byte(digest)) {
			t.Errorf("%s digest %q", name, digest)
		}
	}
	if bytes.Contains(written, []byte("eyJ")) {
		t.Error("the token is in the log")
	}
}

// TestRedactionFails: whatever goes wrong in telling values, the answer is
// recorded, without any.
func TestRedactionFails(t *testing.T) {
	world := bank(t)
	p := payment(world, "pay", fullPayment)
	d := decide.Decide(world, world.LocalHost, p, time.Now(), nil)
	if d.Code != writ.CodeAllow {
		t.Fatal(d.Code)
	}
	for name, try := range map[string]func() audit.Record{
		"a contract that is gone": func() audit.Record {
			return pdp.Record(t.Context(), &snapshot.Snapshot{}, world.LocalHost, p, &d)
		},
		"no world": func() audit.Record { return pdp.Record(t.Context(), nil, world.LocalHost, p, &d) },
		"arguments that are none": func() audit.Record {
			other := *p
			other.ArgumentsJSON = []byte("{")
			return pdp.Record(t.Context(), world, world.LocalHost, &other, &d)
		},
	} {
		r := try()
		if !r.Redacted || r.Resources != nil || r.ResourcesLeftOut != 1 || r.Arguments != nil || r.Evidence != nil {
			t.Errorf("%s: %+v", name, r)
		}
		if r.ID == "" || r.Code != writ.CodeAllow || r.CallDigest != d.CallDigest.String() {
			t.Errorf("%s: the record is lost: %+v", name, r)
		}
	}
}

// TestRecordIsBounded: what no control has read is cut.
func TestRecordIsBounded(t *testing.T) {
	world := bank(t)
	long := strings.Repeat("é", 4000)
	p := &writ.Proposal{RequestID: long, Principal: writ.Principal{Issuer: long, Subject: long, Tenant: long}, Server: writ.ServerRef{ID: long}, Tool: long}
	for range 1000 {
		p.Evidence = append(p.Evidence, writ.Evidence{Argument: long, Kind: writ.SourceKind(long), Reference: long})
	}
	_, r := decided(t, world, p)
	if len(r.Evidence) != decide.MaxEvidence {
		t.Errorf("%d pieces of evidence", len(r.Evidence))
	}
	for _, text := range []string{r.RequestID, r.Issuer, r.Subject, r.Tenant, r.Server, r.Tool} {
		if text == "" || len(text) > 1027 {
			t.Errorf("a claim of %d bytes", len(text))
		}
	}
	if e := r.Evidence[0]; len(e.Argument) > 259 || len(e.Kind) > 259 || e.Reference != long || !e.Secret {
		t.Errorf("evidence of %d, %d bytes", len(e.Argument), len(e.Kind))
	}
	written := onDisk(t, []audit.Record{r})
	if n := len(written); n > 65_535 || bytes.Contains(written, []byte(`"redacted"`)) {
		t.Errorf("%d bytes: %.300s", n, written)
	}
}

// TestStages: how long a call waited for its revision, and how long it took to
// decide, by one clock.
func TestStages(t *testing.T) {
	world := bank(t)
	synctest.Test(t, func(t *testing.T) {
		const source = "testsource"
		holder := holding(world.At(source, 1, nil))
		log := &memory{}
		p := newPDP(t, log, holder)
		if _, err := p.Decide(t.Context(), world.LocalHost, payment(world, "pay", fullPayment), pdp.Ask{}); err != nil {
			t.Fatal(err)
		}
		if took := log.records[0].Took; took.Wait != 0 {
			t.Errorf("waited %v for nothing", took.Wait)
		}
		later := world.At(source, 2, nil)
		go func() {
			time.Sleep(50 * time.Millisecond)
			holder.Store(later)
		}()
		a, err := p.Decide(t.Context(), world.LocalHost, payment(world, "pay", fullPayment), pdp.Ask{AtLeastAsFresh: later.Revision})
		if err != nil || !a.Allowed() {
			t.Fatal(a.Decision(), err)
		}
		if r := log.records[1]; r.Took.Wait != 50*time.Millisecond || r.Revision != later.Revision {
			t.Errorf("waited %v, decided in %s", r.Took.Wait, r.Revision)
		}
	})
	// Outside of the bubble time goes on while it decides.
	log := &memory{}
	p := newPDP(t, log, holding(world))
	begun := time.Now()
	if _, err := p.DecideBatch(t.Context(), world.LocalHost, []pdp.Item{{Proposal: payment(world, "pay", fullPayment)}, {Proposal: payment(world, "show", "{}")}}, pdp.Ask{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Explain(t.Context(), world.LocalOperator, "", payment(world, "pay", fullPayment), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Decide(t.Context(), world.LocalHost, payment(world, "pay", fullPayment), pdp.Ask{}); err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	for _, r := range log.records {
		if r.Took.Decide <= 0 {
			t.Errorf("%s: decided in %v", r.Kind, r.Took.Decide)
		}
		sum += r.Took.Decide
	}
	if all := time.Since(begun); sum > all {
		t.Errorf("the parts took %v, the whole %v", sum, all)
	}
}

// TestHeardAt: a decision in a world that its source has not confirmed for a
// while is recorded as such.
func TestHeardAt(t *testing.T) {
	world := bank(t)
	d := writ.Decision{Code: writ.CodeAllow, HeardAt: time.Unix(17, 0)}
	if r := pdp.Record(t.Context(), world, world.LocalHost, &writ.Proposal{}, &d); !r.HeardAt.Equal(d.HeardAt) {
		t.Errorf("heard at %v", r.HeardAt)
	}
}

// onDisk returns what a real log writes of records.
func onDisk(t testing.TB, records []audit.Record) []byte {
	t.Helper()
	dir := t.TempDir()
	log, err := audit.Open(audit.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := log.Append(t.Context(), r, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	var written []byte
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".jsonl" {
			return err
		}
		data, err := os.ReadFile(path)
		written = append(written, data...)
		return err
	})
	if err != nil || len(written) == 0 {
		t.Fatalf("%d bytes, %v", len(written), err)
	}
	return written
}

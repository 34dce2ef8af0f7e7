package writ_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/canon"
)

// parseObject reads a JSON object that the test wrote itself.
func parseObject(t testing.TB, text string) map[string]any {
	t.Helper()
	m, err := canon.ParseObject([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

// genericCall is the object that CallDigest digests, as a tree.
func genericCall(contract canon.Digest, p writ.Principal, tool string, args, extra map[string]any) map[string]any {
	principal := map[string]any{"iss": p.Issuer, "sub": p.Subject}
	if p.Tenant != "" {
		principal["tenant"] = p.Tenant
	}
	m := map[string]any{
		"type": "writ.call.v1", "contract_digest": contract.String(), "principal": principal, "tool": tool, "arguments": args,
	}
	if len(extra) > 0 {
		m["extra_params"] = extra
	}
	return m
}

// genericProposal is the object that ProposalDigest digests, as a tree.
func genericProposal(t testing.TB, call canon.Digest, requestID string, intent *writ.Intent, actors []writ.Actor, evidence []writ.Evidence) map[string]any {
	t.Helper()
	text := func(m map[string]any, name, s string) {
		if s != "" {
			m[name] = s
		}
	}
	at := func(m map[string]any, name string, when time.Time) {
		if !when.IsZero() {
			m[name] = when.UTC().Format(time.RFC3339Nano)
		}
	}
	m := map[string]any{"type": "writ.proposal.v1", "call_digest": call.String(), "request_id": requestID}
	if intent != nil {
		in := map[string]any{"id": intent.ID, "purpose": intent.Purpose}
		at(in, "declared_at", intent.DeclaredAt)
		at(in, "expires_at", intent.ExpiresAt)
		m["intent"] = in
	}
	var list []any
	for _, a := range actors {
		actor := map[string]any{"sub": a.Subject}
		text(actor, "iss", a.Issuer)
		if len(a.Claims) > 0 {
			claims := map[string]any{}
			for k, v := range a.Claims {
				claims[k] = v
			}
			actor["claims"] = claims
		}
		list = append(list, actor)
	}
	if list != nil {
		m["actors"] = list
	}
	list = nil
	for _, e := range evidence {
		o := map[string]any{"argument": e.Argument, "kind": string(e.Kind)}
		text(o, "reference", e.Reference)
		text(o, "classification", e.Classification)
		at(o, "observed_at", e.ObservedAt)
		if e.Confidence != 0 {
			o["confidence"] = json.Number(canon.AppendFloat(nil, e.Confidence))
		}
		if len(e.DerivedFrom) > 0 {
			o["derived_from"] = e.DerivedFrom
		}
		if len(e.ValueJSON) > 0 {
			v, err := canon.Parse(e.ValueJSON)
			if err != nil {
				t.Fatal(err)
			}
			o["value"] = v
		}
		list = append(list, o)
	}
	if list != nil {
		m["evidence"] = list
	}
	return m
}

func TestDigestVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/digests.json")
	if err != nil {
		t.Fatal(err)
	}
	type actor struct {
		Issuer  string            `json:"iss"`
		Subject string            `json:"sub"`
		Claims  map[string]string `json:"claims"`
	}
	var file struct {
		About []string `json:"about"`
		Calls []struct {
			Name      string `json:"name"`
			Contract  string `json:"contract_digest"`
			Principal struct {
				Issuer  string `json:"iss"`
				Subject string `json:"sub"`
				Tenant  string `json:"tenant"`
			} `json:"principal"`
			Tool      string `json:"tool"`
			Arguments string `json:"arguments_json"`
			Extra     string `json:"extra_params_json"`
			Canonical string `json:"canonical"`
			Digest    string `json:"call_digest"`
		} `json:"calls"`
		Proposals []struct {
			Name      string `json:"name"`
			Call      string `json:"call_digest"`
			RequestID string `json:"request_id"`
			Intent    *struct {
				ID         string    `json:"id"`
				Purpose    string    `json:"purpose"`
				DeclaredAt time.Time `json:"declared_at"`
				ExpiresAt  time.Time `json:"expires_at"`
			} `json:"intent"`
			Actors   []actor `json:"actors"`
			Evidence []struct {
				Argument       string    `json:"argument"`
				Value          string    `json:"value_json"`
				Kind           string    `json:"kind"`
				Reference      string    `json:"reference"`
				Classification string    `json:"classification"`
				ObservedAt     time.Time `json:"observed_at"`
				Confidence     float64   `json:"confidence,string"`
				DerivedFrom    []string  `json:"derived_from"`
			} `json:"evidence"`
			Canonical string `json:"canonical"`
			Digest    string `json:"proposal_digest"`
		} `json:"proposals"`
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	if len(file.Calls) < 10 || len(file.Proposals) < 10 {
		t.Fatalf("only %d calls and %d proposals", len(file.Calls), len(file.Proposals))
	}
	mustDigest := func(s string) canon.Digest {
		d, err := canon.ParseDigest(s)
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		return d
	}
	check := func(t *testing.T, generic map[string]any, canonical, digest string, got canon.Digest) {
		t.Helper()
		if form := string(canon.Append(nil, generic)); form != canonical {
			t.Errorf("canonical form\n got %s\nwant %s", form, canonical)
		}
		if got.String() != digest {
			t.Errorf("digest %s, want %s", got, digest)
		}
	}
	for _, c := range file.Calls {
		t.Run("call/"+c.Name, func(t *testing.T) {
			p := writ.Principal(c.Principal)
			args, extra := parseObject(t, c.Arguments), parseObject(t, c.Extra)
			contract := mustDigest(c.Contract)
			check(t, genericCall(contract, p, c.Tool, args, extra), c.Canonical, c.Digest, writ.CallDigest(contract, p, c.Tool, args, extra))
		})
	}
	for _, p := range file.Proposals {
		t.Run("proposal/"+p.Name, func(t *testing.T) {
			var actors []writ.Actor
			for _, a := range p.Actors {
				actors = append(actors, writ.Actor(a))
			}
			var evidence []writ.Evidence
			for _, e := range p.Evidence {
				evidence = append(evidence, writ.Evidence{
					Argument: e.Argument, ValueJSON: []byte(e.Value), Kind: writ.SourceKind(e.Kind), Reference: e.Reference, Classification: e.Classification,
					ObservedAt: e.ObservedAt, Confidence: e.Confidence, DerivedFrom: e.DerivedFrom,
				})
			}
			call := mustDigest(p.Call)
			intent := (*writ.Intent)(p.Intent)
			check(t, genericProposal(t, call, p.RequestID, intent, actors, evidence), p.Canonical, p.Digest,
				writ.ProposalDigest(call, p.RequestID, intent, actors, evidence, canon.Digest{}))
		})
	}
}

// sample is one of everything that goes into the two digests.
type sample struct {
	Contract  canon.Digest
	Principal writ.Principal
	Tool      string
	Args      map[string]any
	Extra     map[string]any
	Call      canon.Digest
	RequestID string
	Intent    *writ.Intent
	Actors    []writ.Actor
	Evidence  []writ.Evidence
}

func newSample() *sample {
	noon := time.Date(2031, 4, 1, 12, 0, 0, 0, time.UTC)
	return &sample{
		Contract:  canon.Sum([]byte("contract")),
		Principal: writ.Principal{Issuer: "https://id.example", Subject: "ann", Tenant: "acme"},
		Tool:      "create_payment",
		Args:      map[string]any{"supplier": "acme-gmbh", "amount": json.Number("1250.5"), "currency": "EUR"},
		Extra:     map[string]any{"requestState": "abc"},
		Call:      canon.Sum([]byte("call")),
		RequestID: "r-1",
		Intent:    &writ.Intent{ID: "i-1", Purpose: "pay", DeclaredAt: noon, ExpiresAt: noon.Add(time.Minute)},
		Actors:    []writ.Actor{{Issuer: "https://agents.example", Subject: "agent-7", Claims: map[string]string{"client_id": "c1"}}},
		Evidence: []writ.Evidence{{
			Argument: "/supplier", ValueJSON: []byte(`"acme-gmbh"`), Kind: writ.SourceSystemOfRecord, Reference: "erp://17", Classification: "internal",
			ObservedAt: noon, Confidence: 0.5, DerivedFrom: []string{"erp://3"},
		}},
	}
}

func (s *sample) callDigest() canon.Digest {
	return writ.CallDigest(s.Contract, s.Principal, s.Tool, s.Args, s.Extra)
}

func (s *sample) proposalDigest() canon.Digest {
	return writ.ProposalDigest(s.Call, s.RequestID, s.Intent, s.Actors, s.Evidence, canon.Digest{})
}

// leftOut lists exported fields that a digest does not cover, each with its
// reason. There are none: whoever adds a field covers it or gives a reason.
var leftOut = map[string]string{}

// Every exported field of what is digested, and every parameter, changes the
// digest that it belongs to.
func TestEveryFieldIsDigested(t *testing.T) {
	for _, c := range []struct {
		field  string // of sample
		digest func(*sample) canon.Digest
	}{
		{"Contract", (*sample).callDigest},
		{"Principal", (*sample).callDigest},
		{"Tool", (*sample).callDigest},
		{"Args", (*sample).callDigest},
		{"Extra", (*sample).callDigest},
		{"Call", (*sample).proposalDigest},
		{"RequestID", (*sample).proposalDigest},
		{"Intent", (*sample).proposalDigest},
		{"Actors", (*sample).proposalDigest},
		{"Evidence", (*sample).proposalDigest},
	} {
		base := c.digest(newSample())
		if base.IsZero() || base != c.digest(newSample()) {
			t.Fatalf("%s: the digest of the sample is not one", c.field)
		}
		seen := map[canon.Digest]string{base: "nothing"}
		try := func(name string, s *sample) {
			t.Helper()
			d := c.digest(s)
			if d.IsZero() {
				t.Errorf("%s: changing it leaves no digest", name)
			} else if other, dup := seen[d]; dup {
				t.Errorf("changing %s gives the same digest as changing %s", name, other)
			}
			seen[d] = name
		}
		// The parts to change: the fields of a struct, be it behind a pointer
		// or the first element of a slice, or the parameter as a whole.
		part := func(s *sample) reflect.Value {
			v := reflect.ValueOf(s).Elem().FieldByName(c.field)
			switch v.Kind() {
			case reflect.Pointer:
				return v.Elem()
			case reflect.Slice:
				return v.Index(0)
			}
			return v
		}
		whole := part(newSample())
		if whole.Kind() != reflect.Struct {
			s := newSample()
			change(t, part(s))
			try(c.field, s)
			continue
		}
		for i := range whole.NumField() {
			name := whole.Type().Name() + "." + whole.Type().Field(i).Name
			if leftOut[name] != "" {
				continue
			}
			if whole.Field(i).IsZero() {
				t.Errorf("%s: the sample leaves it zero", name)
			}
			s := newSample()
			change(t, part(s).Field(i))
			try(name, s)
			s = newSample()
			part(s).Field(i).SetZero()
			try(name+" (absent)", s)
		}
		// Order and number count, and absence is not an empty element.
		if v := reflect.ValueOf(newSample()).Elem().FieldByName(c.field); v.Kind() == reflect.Slice {
			s := newSample()
			two := reflect.ValueOf(s).Elem().FieldByName(c.field)
			two.Set(reflect.Append(two, reflect.Zero(v.Type().Elem())))
			try(c.field+" (one more)", s)
			s = newSample()
			two = reflect.ValueOf(s).Elem().FieldByName(c.field)
			two.Set(reflect.Append(reflect.MakeSlice(v.Type(), 1, 2), two.Index(0)))
			try(c.field+" (the other way round)", s)
			s = newSample()
			reflect.ValueOf(s).Elem().FieldByName(c.field).SetZero()
			try(c.field+" (none)", s)
		}
	}
	s := newSample()
	s.Intent = nil
	if s.proposalDigest() == newSample().proposalDigest() {
		t.Error("an absent intent gives the same digest")
	}
}

// change gives v another value of its kind. A kind that it does not know needs
// a line here and one in digests.go.
func change(t *testing.T, v reflect.Value) {
	t.Helper()
	switch x := v.Interface().(type) {
	case canon.Digest:
		x[0]++
		v.Set(reflect.ValueOf(x))
	case time.Time:
		v.Set(reflect.ValueOf(x.Add(time.Nanosecond)))
	case []byte:
		v.SetBytes([]byte(`"else"`))
	case []string:
		v.Set(reflect.ValueOf(append(x, "more")))
	case map[string]string:
		x["more"] = ""
	case map[string]any:
		x["more"] = nil
	case float64:
		v.SetFloat(x / 2)
	default:
		if v.Kind() != reflect.String {
			t.Fatalf("a field of type %s: say how to change it, and digest it", v.Type())
		}
		v.SetString(v.String() + "x")
	}
}

// Bytes cannot move from one member to the next one, whatever they are.
func TestDigestsHaveNoSeams(t *testing.T) {
	c := canon.Sum([]byte("contract"))
	seen := map[canon.Digest]string{}
	for _, p := range []writ.Principal{
		{Issuer: "a", Subject: "b"}, {Issuer: "ab"}, {Subject: "ab"}, {Issuer: "a", Tenant: "b"}, {Subject: "a", Tenant: "b"},
		{Issuer: `a","sub":"b`}, {Issuer: `a\`, Subject: `","tenant":"b`}, {Issuer: "a\xff"}, {Issuer: "a\xfe"}, {Issuer: "a\ufffd"},
	} {
		d := writ.CallDigest(c, p, "t", nil, nil)
		if other, dup := seen[d]; dup {
			t.Errorf("%+v has the digest of %s", p, other)
		}
		seen[d] = p.Issuer + "|" + p.Subject + "|" + p.Tenant
	}
	if writ.CallDigest(c, writ.Principal{}, "t", nil, nil) != writ.CallDigest(c, writ.Principal{}, "t", map[string]any{}, map[string]any{}) {
		t.Error("no arguments and no extra params are empty ones")
	}
}

func TestTimesAreDigestedAsInstants(t *testing.T) {
	call := canon.Sum([]byte("call"))
	at := time.Date(2031, 4, 1, 12, 0, 0, 500, time.FixedZone("", 2*3600))
	local, utc := &writ.Intent{ID: "i", ExpiresAt: at}, &writ.Intent{ID: "i", ExpiresAt: at.UTC()}
	if writ.ProposalDigest(call, "r", local, nil, nil, canon.Digest{}) != writ.ProposalDigest(call, "r", utc, nil, nil, canon.Digest{}) {
		t.Error("one instant in two zones has two digests")
	}
}

func TestNoDigest(t *testing.T) {
	call := canon.Sum([]byte("call"))
	if d := writ.CallDigest(canon.Digest{}, writ.Principal{Subject: "ann"}, "t", nil, nil); !d.IsZero() {
		t.Errorf("a call without a contract has the digest %s", d)
	}
	if d := writ.ProposalDigest(canon.Digest{}, "r", nil, nil, nil, canon.Digest{}); !d.IsZero() {
		t.Errorf("a proposal without a call has the digest %s", d)
	}
	for name, e := range map[string]writ.Evidence{
		"no JSON":          {ValueJSON: []byte("x")},
		"an inexact value": {ValueJSON: []byte("9007199254740993")},
		"NaN":              {Confidence: math.NaN()},
		"infinity":         {Confidence: math.Inf(-1)},
	} {
		if d := writ.ProposalDigest(call, "r", nil, nil, []writ.Evidence{{Argument: "/a"}, e}, canon.Digest{}); !d.IsZero() {
			t.Errorf("%s has the digest %s", name, d)
		}
	}
}

func TestDigestAllocations(t *testing.T) {
	s := newSample()
	if n := testing.AllocsPerRun(100, func() { s.callDigest() }); n > 1 {
		t.Errorf("CallDigest makes %v allocations", n)
	}
	s.Actors[0].Claims = nil
	s.Evidence[0].ValueJSON = nil
	if n := testing.AllocsPerRun(100, func() { s.proposalDigest() }); n > 1 {
		t.Errorf("ProposalDigest makes %v allocations", n)
	}
	s.Args["long"] = strings.Repeat("x", 10_000) // beyond the buffer
	if s.callDigest() != canon.Sum(canon.Append(nil, genericCall(s.Contract, s.Principal, s.Tool, s.Args, s.Extra))) {
		t.Error("a long call's digest is not that of its canonical form")
	}
}

func BenchmarkCallDigest(b *testing.B) {
	s := newSample()
	b.ReportAllocs()
	for b.Loop() {
		s.callDigest()
	}
}

func BenchmarkCallDigestGeneric(b *testing.B) {
	s := newSample()
	b.ReportAllocs()
	for b.Loop() {
		canon.Sum(canon.Append(nil, genericCall(s.Contract, s.Principal, s.Tool, s.Args, s.Extra)))
	}
}

func BenchmarkProposalDigest(b *testing.B) {
	s := newSample()
	b.ReportAllocs()
	for b.Loop() {
		s.proposalDigest()
	}
}

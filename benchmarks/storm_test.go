package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/decide"
	writv1 "github.com/writ-pdp/writ/gen/writ/v1"
	"github.com/writ-pdp/writ/server"
	"github.com/writ-pdp/writ/snapshot"
)

// editions is how many editions there are of each of the two files that a
// storm changes.
const editions = 3

// The files that a storm changes.
const (
	stormEntities = "entities/users/00050.json"
	stormPolicies = "policies/crowd5.cedar"
)

// stormFiles is a bundle of 10,000 policies over 2,000 tools and 100,000
// entities. Which edition its entities are of stands in an attribute of what
// is read, and which its policies are of in an id; an answer tells both, by the
// policies that determine it.
func stormFiles(entities, policies int) map[string]string {
	files := crowd(2_000, 10_000)
	maps.Copy(files, staff(100_000, 1_000))
	files["schema.cedarschema"] = `entity Supplier = { status: String, limit_gbp: decimal, edition: Long };`
	const supplier = `{"uid":{"type":"Supplier","id":"ACME-01"},"attrs":{"status":"active",`
	head, rest, _ := strings.Cut(files["entities/all.json"], ",\n"+supplier)
	files["entities/all.json"] = head + "]"
	files[stormEntities] = fmt.Sprintf("[%s\"edition\":%d,%s,\n", supplier, entities, strings.TrimSuffix(rest, "]")) + files[stormEntities][1:]
	files["servers/payments.yaml"] += "  look_up: {effect: read, scope: \"payments:create\"}\n"
	files["servers/payments.tools.json"] = strings.TrimSuffix(files["servers/payments.tools.json"], "]}") +
		`,{"name":"look_up","inputSchema":{"type":"object","properties":{"supplier":{"type":"string"}},"required":["supplier"],"additionalProperties":false}}]}`
	const rule = "@id(%q)\npermit (principal in Group::\"clerks\", action == Action::\"payments/look_up\", resource)%s;\n"
	files[stormPolicies] += fmt.Sprintf(rule, fmt.Sprintf("policies-%d", policies), "")
	for n := range editions {
		files["policies/editions.cedar"] += fmt.Sprintf(rule, fmt.Sprintf("entities-%d", n), fmt.Sprintf(" when { resource.edition == %d }", n))
	}
	return files
}

// looking is the read that is asked for.
func looking(tb testing.TB, world *snapshot.Snapshot) (*writ.Caller, *writ.Proposal) {
	tb.Helper()
	caller, p := payment(world)
	at := time.Now().UTC()
	p.Token.IssuedAt, p.Token.ExpiresAt = at.Add(-time.Minute), at.Add(time.Hour)
	p.Intent.DeclaredAt, p.Intent.ExpiresAt = at, at.Add(time.Hour)
	p.Tool, p.DefinitionDigest = "look_up", world.Contract("payments", "look_up").Tool.Digest
	p.ArgumentsJSON, p.Evidence = []byte(`{"supplier":"ACME-01"}`), nil
	return caller, p
}

// stormWorld is one state of the bundle, and what is right in it.
type stormWorld struct {
	files  map[string]string // those that a storm changes
	answer *writv1.Decision  // but for its revision
}

// stormWorlds builds each state from nothing, and decides in it. It returns
// them in the order of the storm, which changes one file at a time, by turns;
// and by the digests of their bundles.
func stormWorlds(b *testing.B) (order []*stormWorld, byBundle map[string]*stormWorld, message *writv1.Proposal) {
	b.Helper()
	byBundle = map[string]*stormWorld{}
	var asked *writ.Proposal
	for n := range 2 * editions {
		files := stormFiles((n+1)/2%editions, n/2)
		world := build(b, files)
		caller, p := looking(b, world)
		if asked == nil {
			var err error
			if message, err = server.ProposalToProto(p); err != nil {
				b.Fatal(err)
			}
			asked = p
		}
		d := decide.Decide(world, caller, asked, time.Now().UTC(), nil)
		if d.Code != writ.CodeAllow {
			b.Fatalf("%s: %s", d.Code, d.Explanation)
		}
		w := &stormWorld{map[string]string{stormEntities: files[stormEntities], stormPolicies: files[stormPolicies]}, server.DecisionToProto(d)}
		w.answer.Revision = ""
		for _, other := range order {
			if proto.Equal(other.answer, w.answer) {
				b.Fatal("two states of the bundle give the same answer: a mixture would not be seen")
			}
		}
		order, byBundle[world.Revision] = append(order, w), w
	}
	runtime.GC()
	return order, byBundle, message
}

// publication is a bundle's directory that is published whole, by swapping the
// link ..data.
type publication struct {
	dir, staged string // staged holds what does not change
	names       []string
	count       int
}

func newPublication(b *testing.B, dir string, files map[string]string) *publication {
	b.Helper()
	p := &publication{dir: filepath.Join(dir, "bundle"), staged: filepath.Join(dir, "staged"), names: slices.Collect(maps.Keys(files))}
	write(b, p.staged, files)
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		b.Fatal(err)
	}
	for _, name := range p.names {
		top, _, _ := strings.Cut(name, "/")
		if err := os.Symlink(path.Join("..data", top), filepath.Join(p.dir, top)); err != nil && !errors.Is(err, os.ErrExist) {
			b.Fatal(err)
		}
	}
	return p
}

// publish puts a state in place. What does not change is linked, not written.
func (p *publication) publish(changed map[string]string) error {
	p.count++
	next, link := fmt.Sprintf("..%d", p.count), filepath.Join(p.dir, "..data")
	for _, name := range p.names {
		to := filepath.Join(p.dir, next, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		text, ok := changed[name]
		if ok {
			if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
				return err
			}
		} else if err := os.Link(filepath.Join(p.staged, name), to); err != nil {
			return err
		}
	}
	last, _ := os.Readlink(link)
	if err := os.Symlink(next, link+".new"); err != nil {
		return err
	}
	if err := os.Rename(link+".new", link); err != nil || last == "" {
		return err
	}
	return os.RemoveAll(filepath.Join(p.dir, last))
}

// storming is what was seen of a while of asking.
type storming struct {
	mu        sync.Mutex // guards the fields below
	took      []time.Duration
	late      []time.Duration // by how much calls were made later than meant: what the machine does to who asks
	revisions map[string]int
	wrong     []string // answers that are not those of the world that they name
	failed    []error
}

// ask asks at a steady rate until ctx ends, each time whether or not the
// answers before have come, and checks each answer as a whole.
func ask(ctx context.Context, s *serving, rate int, message *writv1.Proposal, worlds map[string]*stormWorld) *storming {
	seen := &storming{revisions: map[string]int{}}
	var calls sync.WaitGroup
	var late []time.Duration
	begun := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		due := begun.Add(time.Duration(n) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(due))
		late = append(late, time.Since(due))
		calls.Go(func() {
			sent := time.Now()
			r, err := s.decisions.Decide(s.host, &writv1.DecideRequest{Proposal: message})
			took := time.Since(sent)
			d := r.GetDecision()
			revision := d.GetRevision()
			named, bad := snapshot.ParseRevision(revision)
			world := worlds[named.Bundle]
			if d != nil {
				d.Revision = ""
			}
			seen.mu.Lock()
			defer seen.mu.Unlock()
			switch {
			case err != nil:
				seen.failed = append(seen.failed, err)
			case bad != nil || world == nil || !proto.Equal(d, world.answer):
				seen.wrong = append(seen.wrong, fmt.Sprintf("in %q: %s, by %v", revision, d.GetCode(), d.GetPolicies()))
			default:
				seen.took = append(seen.took, took)
				seen.revisions[revision]++
			}
		})
	}
	calls.Wait()
	slices.Sort(seen.took)
	seen.late = slices.Sorted(slices.Values(late))
	return seen
}

// check fails the benchmark where a call failed or an answer was wrong.
func (s *storming) check(b *testing.B) {
	b.Helper()
	for _, err := range s.failed[:min(len(s.failed), 3)] {
		b.Errorf("of %d calls that failed: %v", len(s.failed), err)
	}
	for _, text := range s.wrong[:min(len(s.wrong), 3)] {
		b.Errorf("of %d answers that are not those of their world: %s", len(s.wrong), text)
	}
	if len(s.took) == 0 {
		b.Fatal("there was no right answer")
	}
}

// String tells the times that answers took.
func (s *storming) String() string {
	micros := func(q float64) int64 { return s.quantile(q).Microseconds() }
	return fmt.Sprintf("p50 %d µs p99 %d µs most %d µs (asked late: p99 %d µs most %d µs)",
		micros(0.5), micros(0.99), micros(1), at(s.late, 0.99).Microseconds(), at(s.late, 1).Microseconds())
}

func (s *storming) quantile(q float64) time.Duration { return at(s.took, q) }

// at is the one of sorted times that so much of them are below.
func at(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// BenchmarkReloadStorm is what a storm of changes does to decisions: 20 times a
// second a bundle of 10,000 policies over 2,000 tools and 100,000 entities is
// published with one other file, by turns one of entities and one of policies,
// and `pdp serve`, a process of its own, follows it while it is asked at a
// steady rate over gRPC. Calm, the same published where nobody follows it, and
// storm alternate: publishing takes processor and disk, too, and is no part of
// Writ. Every answer is compared as a whole with that of a world built from
// nothing of the bundle that it names.
//
// WRIT_STORM_ROUNDS, WRIT_STORM_SECONDS of each third and WRIT_STORM_RATE, of
// calls a second, say how much; GOMAXPROCS is the server's, too. Run it with
// -benchtime 1x: `make bench-storm`.
func BenchmarkReloadStorm(b *testing.B) {
	rounds, rate := number(b, "WRIT_STORM_ROUNDS", 5), number(b, "WRIT_STORM_RATE", 500)
	span := time.Duration(number(b, "WRIT_STORM_SECONDS", 5)) * time.Second
	order, worlds, message := stormWorlds(b)
	dir := b.TempDir()
	p := newPublication(b, dir, stormFiles(0, 0))
	if err := p.publish(order[0].files); err != nil {
		b.Fatal(err)
	}
	elsewhere := newPublication(b, b.TempDir(), stormFiles(0, 0))
	s := serveDir(b, dir, p.dir)
	while := func(p *publication) (*storming, float64) {
		before := s.used(b)
		began := time.Now()
		ctx, stop := context.WithTimeout(b.Context(), span)
		defer stop()
		var changing sync.WaitGroup
		if p != nil {
			changing.Go(func() {
				tick := time.NewTicker(time.Second / 20)
				defer tick.Stop()
				for ctx.Err() == nil {
					if err := p.publish(order[p.count%len(order)].files); err != nil {
						b.Error(err)
						return
					}
					<-tick.C
				}
			})
		}
		seen := ask(ctx, s, rate, message, worlds)
		changing.Wait()
		return seen, (s.used(b) - before).Seconds() / time.Since(began).Seconds()
	}
	var p50, p99, unfollowed []float64
	answers, published := 0, p.count
	revisions := map[string]int{}
	b.Logf("server's GOMAXPROCS %d; load average %s; %d calls a second; %v each", runtime.GOMAXPROCS(0), average(), rate, span)
	b.ResetTimer()
	for range b.N * rounds {
		time.Sleep(2 * time.Second) // the last change is in force
		var seen [3]*storming
		var used [3]float64 // processors of the server
		for i, where := range []*publication{nil, elsewhere, p} {
			seen[i], used[i] = while(where)
			seen[i].check(b)
			answers += len(seen[i].took)
			maps.Copy(revisions, seen[i].revisions)
		}
		calm, unheard, storm := seen[0], seen[1], seen[2]
		over := func(of *storming, q float64) float64 { return float64(storm.quantile(q)) / float64(of.quantile(q)) }
		p50, p99, unfollowed = append(p50, over(calm, 0.5)), append(p99, over(calm, 0.99)), append(unfollowed, over(unheard, 0.99))
		b.Logf("calm %v, %.2f processors; not followed %v, %.2f; storm %v, %.2f, revisions: %d; storm/calm p50 %.2f p99 %.2f, storm/not followed p99 %.2f",
			calm, used[0], unheard, used[1], storm, used[2], len(storm.revisions), p50[len(p50)-1], p99[len(p99)-1], unfollowed[len(unfollowed)-1])
	}
	b.StopTimer()
	b.Logf("%d answers, all checked; %d revisions answered from, of %d changes", answers, len(revisions), p.count-published)
	spread(b, "storm/calm-p50", p50)
	spread(b, "storm/calm-p99", p99)
	spread(b, "storm/unfollowed-p99", unfollowed)
	b.ReportMetric(0, "ns/op")
}

package etcdtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/writ-pdp/writ/approval"
	"github.com/writ-pdp/writ/approval/storetest"
	"github.com/writ-pdp/writ/canon"
	"github.com/writ-pdp/writ/etcd"
	"github.com/writ-pdp/writ/etcd/etcdtest"
)

var _ approval.Store = (*etcd.Reviews)(nil)

// openReviews opens the reviews under a prefix as one more replica.
func openReviews(t testing.TB, cfg etcd.Config, limits approval.Limits) *etcd.Reviews {
	t.Helper()
	c, err := etcd.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	s, err := etcd.OpenReviews(c, etcd.ReviewsConfig{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// spread is a store whose every call is another replica's.
type spread struct {
	approval.Store
	replicas []*etcd.Reviews
	n        *atomic.Uint64
}

func (s spread) next() *etcd.Reviews {
	return s.replicas[s.n.Add(1)%uint64(len(s.replicas))]
}

func (s spread) Open(ctx context.Context, r approval.Review) (approval.Review, error) {
	return s.next().Open(ctx, r)
}

func (s spread) Get(ctx context.Context, id string) (approval.Review, error) {
	return s.next().Get(ctx, id)
}

func (s spread) ByProposal(ctx context.Context, d canon.Digest) ([]approval.Review, error) {
	return s.next().ByProposal(ctx, d)
}

func (s spread) List(ctx context.Context, q approval.Query) ([]approval.Review, bool, error) {
	return s.next().List(ctx, q)
}

func (s spread) Agree(ctx context.Context, id string, a approval.Agreement) (approval.Review, error) {
	return s.next().Agree(ctx, id, a)
}

func (s spread) Reject(ctx context.Context, id string, by approval.Rejection) (approval.Review, error) {
	return s.next().Reject(ctx, id, by)
}

// TestReviews: three replicas together are one store.
func TestReviews(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	var n atomic.Int64
	storetest.Run(t, func(t testing.TB, limits approval.Limits) approval.Store {
		cfg := config(c)
		cfg.Prefix = fmt.Sprintf("/reviews-%d/", n.Add(1))
		s := spread{n: new(atomic.Uint64)}
		for range 3 {
			s.replicas = append(s.replicas, openReviews(t, cfg, limits))
		}
		s.Store = s.replicas[2] // which watches
		return s
	})
}

// TestReviewsAreForgotten: with the reviews go their names and their bytes, so
// that nothing is left of them.
func TestReviewsAreForgotten(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	s := openReviews(t, config(c), approval.Limits{Life: time.Hour, Keep: time.Hour})
	for i := range 30 {
		r := storetest.Review(fmt.Sprint("r", i), storetest.Start.Add(time.Duration(i)*time.Second+time.Duration(i)))
		if _, err := s.Open(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	// Opened anew, it has another end.
	if _, err := s.Open(t.Context(), storetest.Review("r0", storetest.Start.Add(90*time.Minute))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), storetest.Review("last", storetest.Start.Add(24*time.Hour))); err != nil {
		t.Fatal(err)
	}
	all, _, err := s.List(t.Context(), approval.Query{Closed: true})
	if err != nil || len(all) != 1 || all[0].Shown.RequestID != "last" {
		t.Errorf("%d, %v", len(all), err)
	}
	got, err := c.Raw().Get(t.Context(), "/writ/reviews/", clientPrefix)
	if err != nil || len(got.Kvs) != 4 {
		t.Errorf("%d keys are left, %v", len(got.Kvs), err)
	}
	data, err := approval.Encode(all[0])
	if err != nil {
		t.Fatal(err)
	}
	if total := string(got.Kvs[3].Value); total != fmt.Sprintf("1 %d\n1 %[1]d \"desk\"", len(data)) {
		t.Errorf("the total is %q", total)
	}
}

// TestReviewsTotal: many who open at once count each other.
func TestReviewsTotal(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	const fit = 20
	var full atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		s := openReviews(t, config(c), approval.Limits{MaxReviews: fit})
		for i := range 10 {
			all.Go(func() {
				r := storetest.Review(fmt.Sprintf("%p %d", s, i), storetest.Start)
				r.Caller.Name = fmt.Sprintf("caller %p %d", s, i) // each has a share of its own
				_, err := s.Open(t.Context(), r)
				if errors.Is(err, approval.ErrFull) {
					full.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	kept, _, err := openReviews(t, config(c), approval.Limits{}).List(t.Context(), approval.Query{Now: storetest.Start})
	if err != nil || len(kept) != fit || full.Load() != 30-fit {
		t.Fatalf("%d are kept and %d were refused, %v", len(kept), full.Load(), err)
	}
	bytes := 0
	var lines []string
	for _, r := range kept {
		data, err := approval.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		bytes += len(data)
		lines = append(lines, fmt.Sprintf("1 %d %q", len(data), r.Caller.Name))
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[strings.Index(a, `"`):], b[strings.Index(b, `"`):]) })
	want := fmt.Sprintf("%d %d\n%s", fit, bytes, strings.Join(lines, "\n"))
	got, err := c.Raw().Get(t.Context(), "/writ/reviews/total")
	if err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != want {
		t.Errorf("the total is %v, want %s, %v", got.Kvs, want, err)
	}
}

// TestReviewsUncounted: reviews that were kept before callers were counted are
// in nobody's share, and count once they change.
func TestReviewsUncounted(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	s := openReviews(t, config(c), approval.Limits{MaxReviews: 4})
	var kept []approval.Review
	for _, name := range []string{"a", "b"} {
		r, err := s.Open(t.Context(), storetest.Review(name, storetest.Start))
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, r)
	}
	got, err := c.Raw().Get(t.Context(), "/writ/reviews/total")
	if err != nil || len(got.Kvs) != 1 {
		t.Fatal(got, err)
	}
	before, _, _ := strings.Cut(string(got.Kvs[0].Value), "\n")
	if _, err := c.Raw().Put(t.Context(), "/writ/reviews/total", before); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Agree(t.Context(), kept[0].ID, storetest.Agreement("sam", storetest.Start)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), storetest.Review("c", storetest.Start)); err != nil {
		t.Error(err)
	}
	if _, err := s.Open(t.Context(), storetest.Review("d", storetest.Start)); !errors.Is(err, approval.ErrFull) {
		t.Errorf("as many as are left: %v", err)
	}
}

// TestReviewsDamage: what can't be read is nobody's agreement.
func TestReviewsDamage(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{Members: 1})
	id := approval.ID(storetest.Review("a", storetest.Start).Shown.Digest)
	other, err := approval.Prepare(storetest.Review("b", storetest.Start), approval.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	stray, err := approval.Encode(other)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ key, value string }{
		"no JSON":          {"kept/" + id, "x"},
		"empty":            {"kept/" + id, ""},
		"another's":        {"kept/" + id, string(stray)},
		"no total":         {"total", "x"},
		"a total below 0":  {"total", "-1 5"},
		"a total of three": {"total", "1 2 3"},
		"no caller":        {"total", "1 2\n1 2"},
		"a caller below 0": {"total", "1 2\n-1 2 \"desk\""},
		"a caller twice":   {"total", "1 2\n1 2 \"desk\"\n1 2 \"desk\""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(c)
			cfg.Prefix = fmt.Sprintf("/damaged-%x/", name)
			s := openReviews(t, cfg, approval.Limits{})
			if _, err := s.Open(t.Context(), storetest.Review("a", storetest.Start)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Raw().Put(t.Context(), cfg.Prefix+"reviews/"+test.key, test.value); err != nil {
				t.Fatal(err)
			}
			for what, err := range map[string]error{
				"agree":  second(s.Agree(t.Context(), id, storetest.Agreement("sam", storetest.Start))),
				"get":    second(s.Get(t.Context(), id)),
				"open":   second(s.Open(t.Context(), storetest.Review("a", storetest.Start))),
				"reject": second(s.Reject(t.Context(), id, approval.Rejection{Approver: storetest.Agreement("sam", storetest.Start).Approver, Given: storetest.Start})),
			} {
				if err == nil || errors.Is(err, approval.ErrNotFound) || errors.Is(err, approval.ErrExpired) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// TestReviewsWithoutMembers: while a member is down reviews are answered; while
// most are, they are not, and what was said is there afterwards.
func TestReviewsWithoutMembers(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	s := openReviews(t, config(c), approval.Limits{})
	r, err := s.Open(t.Context(), storetest.Review("a", storetest.Start))
	if err != nil {
		t.Fatal(err)
	}
	c.Stop(c.Members[0])
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if _, err := s.Agree(ctx, r.ID, storetest.Agreement("sam", storetest.Start)); err != nil {
		t.Fatal(err)
	}
	c.Stop(c.Members[1])
	short, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	if _, err := s.Agree(short, r.ID, storetest.Agreement("tom", storetest.Start)); err == nil {
		t.Error("most members are down, and an agreement is taken")
	}
	c.Restart(c.Members[0])
	c.Restart(c.Members[1])
	ctx, cancel = context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	for {
		if r, err = s.Get(ctx, r.ID); err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	if len(r.Agreements) == 0 || r.Agreements[0].Approver.Subject != "sam" {
		t.Errorf("%+v", r.Agreements)
	}
}

// TestReviewsLostAnswers: connections that break again and again lose no
// agreement, and make none twice.
func TestReviewsLostAnswers(t *testing.T) {
	t.Parallel()
	c := etcdtest.Start(t, etcdtest.Config{})
	s := openReviews(t, config(c), approval.Limits{})
	r, err := s.Open(t.Context(), storetest.Review("a", storetest.Start))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	breaking, stop := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() {
		for i := 0; breaking.Err() == nil; i++ {
			way := c.Members[i%3].Client
			for on, d := range map[bool]time.Duration{true: 50 * time.Millisecond, false: 150 * time.Millisecond} {
				way.Mute(on)
				select {
				case <-breaking.Done():
				case <-time.After(d):
				}
			}
			way.Mute(false)
		}
	})
	const people = 12
	var said sync.WaitGroup
	for i := range people {
		said.Go(func() {
			if _, err := s.Agree(ctx, r.ID, storetest.Agreement(fmt.Sprint("p", i), storetest.Start)); err != nil {
				t.Error(err)
			}
		})
	}
	said.Wait()
	// Whoever rejects alone is told that it is so, also where that has to be
	// found out.
	for i := range 20 {
		one, err := s.Open(ctx, storetest.Review(fmt.Sprint("r", i), storetest.Start))
		if err != nil {
			t.Fatal(err)
		}
		if one, err = s.Reject(ctx, one.ID, approval.Rejection{Approver: storetest.Agreement("eve", storetest.Start).Approver, Given: storetest.Start}); err != nil || one.Rejection == nil {
			t.Error(i, err)
		}
	}
	stop()
	all.Wait()
	if r, err = s.Get(ctx, r.ID); err != nil || len(r.Agreements) != people {
		t.Errorf("%d agreements, %v", len(r.Agreements), err)
	}
}

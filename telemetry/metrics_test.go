package telemetry_test

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/writ-pdp/writ/telemetry"
)

func metrics(t testing.TB, read func() telemetry.Reading) *telemetry.Metrics {
	t.Helper()
	m, err := telemetry.NewMetrics(telemetry.MetricsConfig{Service: "pdp", Version: "v1", Read: read})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return m
}

func scrape(t testing.TB, m *telemetry.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	text := w.Body.String()
	p := expfmt.NewTextParser(model.UTF8Validation)
	if _, err := p.TextToMetricFamilies(strings.NewReader(text)); err != nil {
		t.Errorf("Prometheus can't read it: %v", err)
	}
	return text
}

func TestMetrics(t *testing.T) {
	now := time.Now()
	m := metrics(t, func() telemetry.Reading {
		return telemetry.Reading{
			Revision: "sha256:1@x.7.9", Generation: 7, LoadedAt: now.Add(-time.Hour), HeardAt: now.Add(-time.Minute), Revocations: 9,
			Accepted: 7, Refused: 3, Failing: true, Condition: "slow", Recording: true, RecordsAccepted: 100, RecordsSynced: 97, KeysFailing: 2, TokensChecked: 5,
		}
	})
	for range 3 {
		m.Decided("ALLOW", "ALLOW")
	}
	m.Decided("DENY", "NO_PERMIT")
	m.Took(t.Context(), telemetry.Decide, 30*time.Microsecond)
	m.Took(t.Context(), telemetry.Decide, 3*time.Millisecond)
	m.Took(t.Context(), telemetry.Method("a stranger's"), time.Second)
	text := scrape(t, m)
	for _, want := range []string{
		`writ_decisions_total{code="ALLOW",outcome="ALLOW"} 3`, `writ_decisions_total{code="NO_PERMIT",outcome="DENY"} 1`,
		`writ_decision_duration_seconds_bucket{method="Decide",le="2.5e-05"} 0`, `writ_decision_duration_seconds_bucket{method="Decide",le="5e-05"} 1`,
		`writ_decision_duration_seconds_bucket{method="Decide",le="0.005"} 2`, `writ_decision_duration_seconds_count{method="Decide"} 2`,
		`writ_bundle_info{revision="sha256:1@x.7.9"} 1`, `writ_bundle_generation 7`, `writ_bundle_age_seconds 36\d\d(\.\d+)?`, `writ_bundle_refused 1`,
		`writ_bundle_reloads_total{result="accepted"} 7`, `writ_bundle_reloads_total{result="refused"} 3`, `writ_source_silence_seconds 6\d(\.\d+)?`,
		`writ_revocations 9`, `writ_issuers_keys_failing 2`, `writ_tokens_checked_total 5`, `writ_audit_condition{condition="slow"} 1`, `writ_audit_recording 1`, `writ_audit_records_total 100`, `writ_audit_queue 3`,
		`target_info{service_name="pdp",service_version="v1"} 1`, `go_goroutines \d+`,
	} {
		if !regexp.MustCompile(`(?m)^` + strings.NewReplacer("{", `\{`, "}", `\}`).Replace(want) + `$`).MatchString(text) {
			t.Errorf("no line %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, "stranger") {
		t.Error("a method that doesn't exist has a series")
	}
}

// Without a world there is nothing to say of it, and all the rest.
func TestMetricsEmpty(t *testing.T) {
	text := scrape(t, metrics(t, func() telemetry.Reading { return telemetry.Reading{Condition: "ok"} }))
	for _, no := range []string{"writ_bundle_info", "writ_bundle_age", "writ_source_silence"} {
		if strings.Contains(text, no+"_seconds ") || strings.Contains(text, no+"{") {
			t.Errorf("says %s", no)
		}
	}
	if !strings.Contains(text, "\nwrit_audit_recording 0\n") || !strings.Contains(text, "\nwrit_bundle_refused 0\n") {
		t.Error(text)
	}
}

// However many codes bundles bring, the series stay few, and nothing is lost.
func TestMetricsCodesAreBounded(t *testing.T) {
	m := metrics(t, func() telemetry.Reading { return telemetry.Reading{} })
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for i := range 2000 {
				m.Decided("DENY", fmt.Sprintf("CODE_%d", i))
			}
		})
	}
	callers.Wait()
	series, sum := 0, 0
	for _, line := range regexp.MustCompile(`(?m)^writ_decisions_total\{.*\} (\d+)$`).FindAllStringSubmatch(scrape(t, m), -1) {
		var n int
		if _, err := fmt.Sscan(line[1], &n); err != nil {
			t.Fatal(err)
		}
		series++
		sum += n
	}
	if series > 513 || series < 100 || sum != 8000 {
		t.Errorf("%d series, %d decisions", series, sum)
	}
}

// What is counted for each decision allocates nothing.
func TestMetricsAllocateNothing(t *testing.T) {
	m := metrics(t, func() telemetry.Reading { return telemetry.Reading{} })
	ctx := t.Context()
	m.Decided("DENY", "NO_PERMIT")
	m.Took(ctx, telemetry.Decide, time.Millisecond)
	if n := testing.AllocsPerRun(1000, func() { m.Decided("DENY", "NO_PERMIT") }); n > 0 {
		t.Errorf("Decided allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() { m.Took(ctx, telemetry.Decide, time.Millisecond) }); n > 0 {
		t.Errorf("Took allocates %v times", n)
	}
}

func BenchmarkMetrics(b *testing.B) {
	m := metrics(b, func() telemetry.Reading { return telemetry.Reading{} })
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		m.Decided("DENY", "NO_PERMIT")
		m.Took(ctx, telemetry.Decide, time.Millisecond)
	}
}

package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// scope names the meter.
const scope = "github.com/writ-pdp/writ"

// instruments makes the instruments. Prometheus knows writ.bundle.age, in
// seconds, as writ_bundle_age_seconds, and counters with _total at the end.
func (m *Metrics) instruments() error {
	b := builder{meter: m.provider.Meter(scope)}
	m.duration = b.histogram("writ.decision.duration", "s", "How long calls took that asked for decisions, until the answer was recorded.", seconds)
	decisions := b.counter("writ.decisions", "Decisions that were given, by outcome and code.")

	revision := b.gauge("writ.bundle.info", "", "1 for the revision in force.")
	generation := b.gauge("writ.bundle.generation", "", "The generation of the bundle in force, as its source counts.")
	age := b.seconds("writ.bundle.age", "How long the bundle has been in force.")
	failing := b.gauge("writ.bundle.refused", "", "1 while the newest bundle of the source is refused, and an older one in force.")
	reloads := b.counter("writ.bundle.reloads", "Bundles that the source gave, by whether they were accepted.")
	silence := b.seconds("writ.source.silence", "How long ago the source last said that there is nothing newer.")
	revocations := b.gauge("writ.revocations", "", "Entries of the revocation log.")

	failingKeys := b.gauge("writ.issuers.keys.failing", "", "Issuers whose keys could not be fetched when they were asked for last.")
	checked := b.counter("writ.tokens.checked", "Signatures of access tokens that were checked: a token that was seen before is not checked again.")

	condition := b.gauge("writ.audit.condition", "", "1 for the condition that the audit log is in.")
	recording := b.gauge("writ.audit.recording", "", "1 while the audit log takes what must be on the disk.")
	accepted := b.counter("writ.audit.records", "Records that the audit log has accepted.")
	queue := b.gauge("writ.audit.queue", "", "Records that the audit log has accepted and that are not on the disk yet.")
	if b.err != nil {
		return b.err
	}
	_, err := b.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for c, n := range *m.cells.Load() {
			o.ObserveInt64(decisions, n.Load(), metric.WithAttributes(attrOutcome.String(c.outcome), attrCode.String(c.code)))
		}
		r, now := m.read(), time.Now()
		if r.Revision != "" {
			o.ObserveInt64(revision, 1, metric.WithAttributes(attrRevision.String(r.Revision)))
			o.ObserveInt64(generation, int64(r.Generation))
			o.ObserveFloat64(age, now.Sub(r.LoadedAt).Seconds())
		}
		o.ObserveInt64(failing, one(r.Failing))
		o.ObserveInt64(reloads, int64(r.Accepted), metric.WithAttributes(attrResult.String("accepted")))
		o.ObserveInt64(reloads, int64(r.Refused), metric.WithAttributes(attrResult.String("refused")))
		if !r.HeardAt.IsZero() {
			o.ObserveFloat64(silence, now.Sub(r.HeardAt).Seconds())
		}
		o.ObserveInt64(revocations, int64(r.Revocations))
		o.ObserveInt64(failingKeys, int64(r.KeysFailing))
		o.ObserveInt64(checked, int64(r.TokensChecked))
		o.ObserveInt64(condition, 1, metric.WithAttributes(attrCondition.String(r.Condition)))
		o.ObserveInt64(recording, one(r.Recording))
		o.ObserveInt64(accepted, int64(r.RecordsAccepted))
		o.ObserveInt64(queue, int64(r.RecordsAccepted-min(r.RecordsAccepted, r.RecordsSynced)))
		return nil
	}, b.all...)
	return err
}

func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// builder makes instruments, and keeps the first error.
type builder struct {
	meter metric.Meter
	all   []metric.Observable
	err   error
}

func (b *builder) counter(name, help string) metric.Int64ObservableCounter {
	i, err := b.meter.Int64ObservableCounter(name, metric.WithDescription(help))
	b.keep(i, err)
	return i
}

func (b *builder) gauge(name, unit, help string) metric.Int64ObservableGauge {
	i, err := b.meter.Int64ObservableGauge(name, metric.WithDescription(help), metric.WithUnit(unit))
	b.keep(i, err)
	return i
}

func (b *builder) seconds(name, help string) metric.Float64ObservableGauge {
	i, err := b.meter.Float64ObservableGauge(name, metric.WithDescription(help), metric.WithUnit("s"))
	b.keep(i, err)
	return i
}

func (b *builder) histogram(name, unit, help string, bounds []float64) metric.Float64Histogram {
	i, err := b.meter.Float64Histogram(name, metric.WithDescription(help), metric.WithUnit(unit), metric.WithExplicitBucketBoundaries(bounds...))
	if b.err == nil {
		b.err = err
	}
	return i
}

func (b *builder) keep(i metric.Observable, err error) {
	b.all = append(b.all, i)
	if b.err == nil {
		b.err = err
	}
}

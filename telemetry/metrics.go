package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
)

// The attributes of metrics, and all the values that they may have. None is
// taken from a request: codes are Writ's and those that bundles name.
const (
	attrOutcome   = attribute.Key("outcome")   // ALLOW, DENY or REVIEW_REQUIRED
	attrCode      = attribute.Key("code")      // a code, or [otherCode]
	attrMethod    = attribute.Key("method")    // Decide, DecideBatch, Explain, Redeem or VerifyEffect
	attrResult    = attribute.Key("result")    // accepted or refused
	attrRevision  = attribute.Key("revision")  // the one in force
	attrCondition = attribute.Key("condition") // the audit log's
)

// maxCodes bounds the series of decisions over all bundles that a process has
// served; what comes after is counted under otherCode.
const (
	maxCodes  = 512
	otherCode = "OTHER"
)

// Reading is what metrics say of the parts of a process at one moment.
type Reading struct {
	// Revision, Generation and LoadedAt are of the world in force; empty: none.
	Revision   string
	Generation uint64
	LoadedAt   time.Time
	// HeardAt is when the bundle's source was last heard; zero: it says nothing.
	HeardAt time.Time
	// Revocations is how many entries the revocation log has.
	Revocations uint64
	// Accepted and Refused count the bundles that the source gave; Failing says
	// that its newest is refused now.
	Accepted, Refused uint64
	Failing           bool
	// Condition is the audit log's, in a word, and Recording whether it takes
	// what must be on the disk.
	Condition string
	Recording bool
	// KeysFailing is how many issuers' keys can't be fetched.
	KeysFailing int
	// TokensChecked counts the signatures of access tokens that were checked.
	TokensChecked uint64
	// RecordsAccepted and RecordsSynced count the audit log's records that were
	// taken and those that are on the disk.
	RecordsAccepted, RecordsSynced uint64
}

// MetricsConfig says what is measured, and as whose.
type MetricsConfig struct {
	// Service and Version name the process, as for [Config]. Service is required.
	Service, Version string
	// Read is asked at each collection. Required; safe for concurrent use.
	Read func() Reading
}

// Metrics are the numbers of a process, for Prometheus. What a decision costs
// here is an atomic addition and a histogram's: see [Metrics.Decided].
type Metrics struct {
	read     func() Reading
	provider *sdkmetric.MeterProvider
	handler  http.Handler
	duration metric.Float64Histogram

	cells  atomic.Pointer[map[cell]*atomic.Int64] // never changed, but replaced
	adding sync.Mutex                             // held to replace it
	timed  map[Method][]metric.RecordOption
}

// cell names one counter of decisions.
type cell struct{ outcome, code string }

// Method is what was asked. Its text is a metric's.
type Method string

// Methods.
const (
	Decide  Method = "Decide"
	Batch   Method = "DecideBatch"
	Explain Method = "Explain"

	Redeem       Method = "Redeem"
	VerifyEffect Method = "VerifyEffect"
)

// seconds are the bounds of the histogram of durations: a decision takes some
// ten microseconds, and one that waits for the disk some milliseconds.
var seconds = []float64{25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1, 2.5, 5}

// NewMetrics begins to count. Nothing global is set.
func NewMetrics(cfg MetricsConfig) (*Metrics, error) {
	if cfg.Service == "" || cfg.Read == nil {
		return nil, errors.New("telemetry: metrics need the service's name and Read")
	}
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
	}
	export, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("telemetry: the Prometheus exporter: %w", err)
	}
	named := resource.NewSchemaless(attribute.String("service.name", cfg.Service), attribute.String("service.version", cfg.Version))
	m := &Metrics{
		read:     cfg.Read,
		provider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(export), sdkmetric.WithResource(named)),
		handler:  promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		timed:    map[Method][]metric.RecordOption{},
	}
	m.cells.Store(&map[cell]*atomic.Int64{})
	for _, method := range []Method{Decide, Batch, Explain, Redeem, VerifyEffect} {
		m.timed[method] = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attrMethod.String(string(method))))}
	}
	if err := m.instruments(); err != nil {
		return nil, fmt.Errorf("telemetry: %w", errors.Join(err, m.provider.Shutdown(context.Background())))
	}
	return m, nil
}

// Handler serves the numbers in Prometheus's text format, or OpenMetrics.
func (m *Metrics) Handler() http.Handler { return m.handler }

// Close stops collecting.
func (m *Metrics) Close(ctx context.Context) error {
	if err := m.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("telemetry: metrics: %w", err)
	}
	return nil
}

// Took notes how long a call took that asked for decisions, from when the PDP
// had it until its answer was recorded. It allocates nothing.
func (m *Metrics) Took(ctx context.Context, method Method, d time.Duration) {
	if options, ok := m.timed[method]; ok {
		m.duration.Record(ctx, d.Seconds(), options...)
	}
}

// Decided counts one decision. It allocates nothing, but for the first of an
// outcome and code.
func (m *Metrics) Decided(outcome, code string) {
	c := cell{outcome, code}
	n, ok := (*m.cells.Load())[c]
	if !ok {
		n = m.add(c)
	}
	n.Add(1)
}

// add makes the counter of a cell, or of those that are counted together.
func (m *Metrics) add(c cell) *atomic.Int64 {
	m.adding.Lock()
	defer m.adding.Unlock()
	cells := *m.cells.Load()
	if len(cells) >= maxCodes {
		c.code = otherCode
	}
	if n, ok := cells[c]; ok {
		return n
	}
	next := make(map[cell]*atomic.Int64, len(cells)+1)
	for k, n := range cells {
		next[k] = n
	}
	n := &atomic.Int64{}
	next[c] = n
	m.cells.Store(&next)
	return n
}

package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ/server"
)

func (h *house) get(t testing.TB, method, path string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+h.web+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	r, err := do(&http.Client{Transport: h.transport}, req)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// /readyz says what is wrong, also while it is ready; and why where it isn't.
func TestReadyTroubles(t *testing.T) {
	var places []string
	for i := range 20 {
		places = append(places, fmt.Sprintf("policies/p%d.cedar:1:1", i))
	}
	since := time.Date(2026, 11, 30, 12, 0, 0, 0, time.FixedZone("", 3600))
	h := open(t, &decider{}, func(c *server.Config) {
		c.Troubles = func() []server.Trouble {
			return []server.Trouble{
				{Part: "bundle", Since: since, Message: "the newest is refused", Places: places},
				{Part: "log", Since: since, Message: "the log is slow"},
			}
		}
	})
	r := h.get(t, "GET", "/readyz")
	r.wantHeader(t)
	var got struct {
		Status   string
		Troubles []struct {
			Part, Message string
			Since         time.Time
			Places        []string
			More          int `json:"more_places"`
		}
	}
	if err := json.Unmarshal(r.body, &got); err != nil || r.status != http.StatusOK || got.Status != "ready" || len(got.Troubles) != 2 {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	b, l := got.Troubles[0], got.Troubles[1]
	if b.Part != "bundle" || b.Message != "the newest is refused" || !b.Since.Equal(since) || len(b.Places) != 16 || b.More != 4 || b.Places[0] != places[0] {
		t.Errorf("%+v", b)
	}
	if l.Part != "log" || l.Places != nil || l.More != 0 {
		t.Errorf("%+v", l)
	}
	h.SetServing(false)
	r = h.get(t, "GET", "/readyz")
	r.wantRefused(t, http.StatusServiceUnavailable, "unavailable", server.ReasonNotReady)
	if !strings.Contains(string(r.body), "the newest is refused; the log is slow") || strings.Contains(string(r.body), "policies/") {
		t.Errorf("%s", r.body)
	}
}

// /metrics has the guard of the other paths and no credential; it only reads.
func TestMetricsDoor(t *testing.T) {
	h := open(t, &decider{}, func(c *server.Config) {
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "up 1\n") })
	})
	if r := h.get(t, "GET", "/metrics"); r.status != http.StatusOK || string(r.body) != "up 1\n" || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v %s", r.status, r.header, r.body)
	}
	h.get(t, "POST", "/metrics").wantRefused(t, http.StatusMethodNotAllowed, "unimplemented", server.ReasonMethodUnknown)
	h.get(t, "GET", "/metrics", "Origin", "http://localhost").wantRefused(t, http.StatusForbidden, "permission_denied", server.ReasonOriginDenied)
	open(t, &decider{}, nil).get(t, "GET", "/metrics").wantRefused(t, http.StatusNotFound, "unimplemented", server.ReasonMethodUnknown)
}

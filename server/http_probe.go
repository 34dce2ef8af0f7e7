package server

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"time"
)

// Trouble is something that people should look after, though the server may
// still decide.
type Trouble struct {
	// Part is what it is about: bundle, source, tokens, tls, log, checkpoints or
	// export.
	Part string
	// Since is when it began; zero: it was never otherwise.
	Since time.Time
	// Message says in one sentence what it means. It holds no text of a bundle.
	Message string
	// Places are where it is, as FILE:LINE:COLUMN. At most 16 are told.
	Places []string
}

// maxPlaces is how many places of one trouble are told.
const maxPlaces = 16

// The JSON of /readyz.
type (
	wireReady struct {
		Status   string        `json:"status"`
		Troubles []wireTrouble `json:"troubles,omitempty"`
	}
	wireTrouble struct {
		Part    string    `json:"part"`
		Since   time.Time `json:"since,omitzero"`
		Message string    `json:"message"`
		Places  []string  `json:"places,omitempty"`
		More    int       `json:"more_places,omitempty"` // that are not told
	}
)

// ready answers whether the server can decide, and what is wrong all the same.
// It takes no credential, so it tells no content; where others than this
// machine can ask, it tells nothing but yes or no.
func (d *httpDoor) ready(a *answer, r *http.Request) (int, *refusal) {
	s := d.server
	var troubles []Trouble
	if s.troubles != nil && local(r) {
		troubles = s.troubles()
	}
	if s.draining.Load() || !s.serving.Load() {
		refused := s.notReady()
		if len(troubles) > 0 && !s.draining.Load() {
			messages := make([]string, len(troubles))
			for i, t := range troubles {
				messages[i] = t.Message
			}
			refused = refuse(ReasonNotReady, strings.Join(messages, "; "))
		}
		return d.probe(a, r, nil, refused)
	}
	well := wireReady{Status: "ready"}
	for _, t := range troubles {
		told := min(len(t.Places), maxPlaces)
		well.Troubles = append(well.Troubles, wireTrouble{t.Part, t.Since.UTC(), t.Message, t.Places[:told], len(t.Places) - told})
	}
	body, err := json.Marshal(well)
	if err != nil {
		body = []byte(`{"status":"ready"}`) // of texts and times: it can be written
	}
	return d.probe(a, r, body, nil)
}

// measure serves the metrics, without a credential, to this machine alone.
func (d *httpDoor) measure(a *answer, r *http.Request) (int, *refusal) {
	if d.server.metrics == nil || !local(r) {
		return http.StatusNotFound, refuse(ReasonMethodUnknown, "there is no such method here")
	}
	if refused := reading(a, r); refused != nil {
		return http.StatusMethodNotAllowed, refused
	}
	d.server.metrics.ServeHTTP(a, r)
	return 0, nil
}

// keysPath is where the public keys are (RFC 8615).
const keysPath = "/.well-known/jwks.json"

// keys serves the public keys that grants and approvals are signed with, a JWK
// set (RFC 7517), without a credential: they are public.
func (d *httpDoor) keys(a *answer, r *http.Request) (int, *refusal) {
	if refused := reading(a, r); refused != nil {
		return http.StatusMethodNotAllowed, refused
	}
	if d.server.enforcer == nil {
		return http.StatusNotFound, errNoGrants
	}
	connectionOfHTTP(r).pace.add(-probeCost)
	jwks, _, _ := d.server.enforcer.Keys()
	a.Header().Set("Cache-Control", "max-age=60")
	a.json(http.StatusOK, jwks)
	return 0, nil
}

// probe answers those who watch over the process. It takes no credential and
// nothing of anyone's quota, and tells nothing else.
func (d *httpDoor) probe(a *answer, r *http.Request, well []byte, refused *refusal) (int, *refusal) {
	connectionOfHTTP(r).pace.add(-probeCost)
	if refused := reading(a, r); refused != nil {
		return http.StatusMethodNotAllowed, refused
	}
	if refused != nil {
		// Not logged as a refusal: it is the answer.
		a.refuse(http.StatusServiceUnavailable, refused)
		return 0, nil
	}
	a.json(http.StatusOK, well)
	return 0, nil
}

// reading refuses what doesn't only read.
func reading(a *answer, r *http.Request) *refusal {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	a.Header().Set("Allow", "GET, HEAD")
	return refuse(ReasonMethodUnknown, "this answers GET and HEAD only")
}

// local reports whether a request came to an address that only this machine
// can reach.
func local(r *http.Request) bool {
	switch to := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr:
		return to.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	case net.Addr:
		return to.Network() == "bufconn" // within this process
	}
	return false
}

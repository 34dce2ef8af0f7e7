package forward

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/writ-pdp/writ/audit/tree"
)

// HTTPConfig says which witness checkpoints are sent to.
type HTTPConfig struct {
	// URL is the witness's submission prefix (C2SP tlog-witness), required:
	// https, or http on this machine.
	URL string
	// Keys are the witness's keys, at least one. Its answer must hold a valid
	// cosignature of one of them; what it holds of other keys is ignored.
	Keys []*tree.Witness
	// TLS is used for https; nil is the system's roots.
	TLS *tls.Config
}

// HTTP is a witness. One goroutine uses it at a time.
type HTTP struct {
	url    string
	keys   []*tree.Witness
	client *http.Client
	seen   int64 // size of what the witness cosigned last, as far as is known
}

// NewHTTP returns the sink of a witness.
func NewHTTP(cfg HTTPConfig) (*HTTP, error) {
	u, err := url.Parse(cfg.URL)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("forward: a witness's URL must be https://HOST/PATH, without user, query and fragment")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return nil, fmt.Errorf("forward: the witness's URL %s must be https: http is for this machine alone", cfg.URL)
	case len(cfg.Keys) == 0:
		return nil, fmt.Errorf("forward: the witness %s must have a key: its cosignatures can't be verified otherwise", cfg.URL)
	}
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        cfg.TLS.Clone(),
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    1,
		MaxResponseHeaderBytes: 16 << 10,
	}
	return &HTTP{
		url:  strings.TrimSuffix(cfg.URL, "/") + "/add-checkpoint",
		keys: cfg.Keys,
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Name returns the URL.
func (h *HTTP) Name() string { return h.url }

// Keys returns the witness's keys.
func (h *HTTP) Keys() []*tree.Witness { return h.keys }

// maxAttempts bounds how often a witness may tell that it has another size than
// was thought, for one checkpoint.
const maxAttempts = 3

// Send sends a checkpoint to the witness, with the proof that it continues the
// one that the witness cosigned last.
func (h *HTTP) Send(ctx context.Context, c Checkpoint) ([]byte, error) {
	lines, err := h.send(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("forward: %s: %w", h.url, err)
	}
	return lines, nil
}

func (h *HTTP) send(ctx context.Context, c Checkpoint) ([]byte, error) {
	for range maxAttempts {
		if h.seen > c.Head.Size {
			seen := h.seen
			h.seen = 0 // it is asked again next time
			return nil, fmt.Errorf("%w: sizes %d and %d", ErrSetBack, seen, c.Head.Size)
		}
		proof, err := c.Prove(h.seen)
		if err != nil {
			return nil, err
		}
		var body bytes.Buffer
		fmt.Fprintf(&body, "old %d\n", h.seen)
		for _, hash := range proof {
			fmt.Fprintf(&body, "%s\n", hash)
		}
		body.WriteByte('\n')
		body.Write(c.Signed)
		a, err := h.post(ctx, body.Bytes())
		if err != nil {
			return nil, err
		}
		switch {
		case a.status == http.StatusOK:
			return h.accept(c, a.body)
		case a.status == http.StatusConflict && a.sizes:
			size, err := parseSize(a.body)
			if err != nil {
				return nil, err
			}
			if size == h.seen {
				return nil, fmt.Errorf("answers that it has size %d to a proof from size %d", size, h.seen)
			}
			h.seen = size
		case a.status == http.StatusConflict, a.status == http.StatusUnprocessableEntity:
			return nil, fmt.Errorf("%w (status %d, from size %d to %d)", ErrFork, a.status, h.seen, c.Head.Size)
		case a.status == http.StatusNotFound:
			return nil, errors.New("does not know this log (status 404): it must be told of the log's origin and verifier key")
		case a.status == http.StatusForbidden:
			return nil, errors.New("knows another key for this log (status 403)")
		default:
			return nil, fmt.Errorf("answers with status %d", a.status)
		}
	}
	return nil, errors.New("has another size each time it is asked: something else sends checkpoints there")
}

// answer is what a witness answers.
type answer struct {
	status int
	sizes  bool // of the type text/x.tlog.size
	body   []byte
}

// maxAnswer bounds the body of an answer, in bytes.
const maxAnswer = 16 << 10

func (h *HTTP) post(ctx context.Context, body []byte) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "text/plain; charset=utf-8")
	response, err := h.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("reading its answer: %w", err)
	case len(b) > maxAnswer:
		return answer{}, fmt.Errorf("its answer is longer than %d bytes", maxAnswer)
	}
	return answer{response.StatusCode, response.Header.Get("Content-Type") == "text/x.tlog.size", b}, nil
}

// parseSize reads the size that a witness has: a decimal number and a newline.
func parseSize(body []byte) (int64, error) {
	text, ok := strings.CutSuffix(string(body), "\n")
	size, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || size < 0 || size > tree.MaxSize || strconv.FormatInt(size, 10) != text {
		return 0, errors.New("answers with a size that is none")
	}
	return size, nil
}

// accept verifies the cosignatures that the witness has answered with.
func (h *HTTP) accept(c Checkpoint, lines []byte) ([]byte, error) {
	_, s, err := tree.Cosign(c.Signed, lines, c.Log, h.keys...)
	if err != nil {
		return nil, fmt.Errorf("its cosignature: %w", err)
	}
	if len(s.Cosignatures) == 0 {
		return nil, errors.New("has not cosigned with any key that is known of it")
	}
	h.seen = c.Head.Size
	return lines, nil
}

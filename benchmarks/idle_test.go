package benchmarks

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/writ-pdp/writ"
	"github.com/writ-pdp/writ/server"
)

// nobody decides nothing: no call is made.
type nobody struct{ server.Decider }

// BenchmarkIdle is the memory of a connection that asks nothing, after its
// handshake: of the heap with the stacks, and of the process as the system counts
// it. Who holds the connections is another process. Run it with -benchtime 1x:
// `make bench-idle`.
func BenchmarkIdle(b *testing.B) {
	program := filepath.Join(b.TempDir(), "flood")
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program, "./flood").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for _, c := range []struct {
		protocol string
		tls      bool
	}{{"grpc", false}, {"grpc", true}, {"http", false}} {
		for _, n := range []int{1_000, 5_000} {
			b.Run(fmt.Sprintf("%s/tls=%t/%d", c.protocol, c.tls, n), func(b *testing.B) {
				address := idling(b, c.protocol, c.tls, n)
				heap, resident := memory(b)
				cmd := exec.Command(program, "--address", address, "--method", "-", "--idle", c.protocol, fmt.Sprintf("--tls=%t", c.tls), "--connections", strconv.Itoa(n))
				cmd.Stderr = os.Stderr
				in, err := cmd.StdinPipe()
				if err != nil {
					b.Fatal(err)
				}
				out, err := cmd.StdoutPipe()
				if err != nil {
					b.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
					b.Fatal(line, err)
				}
				heapWith, residentWith := memory(b)
				_ = in.Close()
				if err := cmd.Wait(); err != nil {
					b.Error(err)
				}
				b.ReportMetric(float64(heapWith-heap)/float64(n)/1024, "heap-KiB/conn")
				b.ReportMetric(float64(residentWith-resident)/float64(n)/1024, "RSS-KiB/conn")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// idling runs a server in this process that takes n connections, and returns
// the address of one of its doors.
func idling(b *testing.B, protocol string, secure bool, n int) string {
	b.Helper()
	credentials, err := server.NewCredentials(filepath.Join(b.TempDir(), "credentials"))
	if err != nil {
		b.Fatal(err)
	}
	none := func() *writ.Caller { return nil }
	cfg := server.Config{
		Decider: nobody{}, Credentials: credentials, LocalHost: none, LocalServer: none, LocalOperator: none,
		May: func(*writ.Caller, string) bool { return false }, Limits: server.Limits{Connections: n + 16},
	}
	if secure {
		cfg.TLS = selfSigned(b)
	}
	s, err := server.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	var listeners [2]net.Listener
	for i := range listeners {
		if listeners[i], err = s.Listen("127.0.0.1:0"); err != nil {
			b.Fatal(err)
		}
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.WithoutCancel(b.Context()), listeners[0], listeners[1]) }()
	b.Cleanup(func() {
		_ = s.Close() // connections that are cut off are no fault here
		<-served
	})
	if protocol == "http" {
		return listeners[1].Addr().String()
	}
	return listeners[0].Addr().String()
}

func selfSigned(b *testing.B) *server.TLS {
	b.Helper()
	cert, key := certificate(b)
	t, err := server.OpenTLS(server.TLSConfig{CertFile: cert, KeyFile: key})
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// certificate makes the files of a server's certificate and its key.
func certificate(b *testing.B) (certFile, keyFile string) {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		b.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	write(b, dir, map[string]string{
		"cert.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		"key.pem":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	})
	return filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
}

// memory is what is live, with the stacks, and what the process has.
func memory(b *testing.B) (live, resident int64) {
	b.Helper()
	debug.FreeOSMemory()
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		live += int64(s.Value.Uint64())
	}
	if data, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := strings.Fields(string(data)); len(fields) > 1 {
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			resident = pages * int64(os.Getpagesize())
		}
	}
	return live, resident
}

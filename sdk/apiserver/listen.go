package apiserver

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
)

// Listener serves HTTPS on the loopback interface.
type Listener struct {
	// URL is the value for FLEX_KUBE_API.
	URL string
	// CA is the certificate, in PEM.
	CA     []byte
	server *httptest.Server
}

// Listen serves on a free port until Close.
func Listen(handler http.Handler) *Listener {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // tests break connections on purpose
	server.Config.SetKeepAlivesEnabled(false)           // Go's client retries requests on reused connections by itself
	server.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &Listener{server.URL, ca, server}
}

// Address is the host and port.
func (l *Listener) Address() string { return l.server.Listener.Addr().String() }

// Also serves on another listener, such as one at the same address of another network, until that is closed.
func (l *Listener) Also(other net.Listener) {
	go func() { _ = l.server.Config.Serve(tls.NewListener(other, l.server.TLS)) }() // its error is that it was closed
}

// Close waits for the calls in flight.
func (l *Listener) Close() { l.server.Close() }

package apiserver

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
)

// Listener serves HTTPS on the loopback interface.
type Listener struct {
	// URL is the value for FLEX_KUBE_API.
	URL string
	// CA is the certificate, in PEM.
	CA    []byte
	close func()
}

// Listen serves on a free port until Close.
func Listen(handler http.Handler) *Listener {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // tests break connections on purpose
	server.Config.SetKeepAlivesEnabled(false)           // Go's client retries requests on reused connections by itself
	server.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &Listener{server.URL, ca, server.Close}
}

// Close waits for the calls in flight.
func (l *Listener) Close() { l.close() }

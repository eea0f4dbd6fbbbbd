package apiserver

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
)

// Listener is where servers are reached, over HTTPS on the loopback.
type Listener struct {
	// URL goes into FLEX_KUBE_API.
	URL string
	// CA is the certificate, in PEM.
	CA    []byte
	close func()
}

// Listen serves on a free port until Close.
func Listen(handler http.Handler) *Listener {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that end badly are what is tried
	server.Config.SetKeepAlivesEnabled(false)           // Go's client repeats requests on connections that it had used before
	server.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &Listener{server.URL, ca, server.Close}
}

// Close waits for the calls that are being answered.
func (l *Listener) Close() { l.close() }

package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Serve runs a registry that keeps everything in memory, until ctx ends. With credentials, "name:password", it answers
// nobody else. It says on out where it listens. Without TLS it is for loopback addresses, where container runtimes do
// without.
func Serve(ctx context.Context, address, credentials string, out io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	if credentials != "" {
		handler = onlyFor(credentials, handler)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stopped()
	fmt.Fprintln(out, "serving", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func onlyFor(credentials string, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		if subtle.ConstantTimeCompare([]byte(name+":"+password), []byte(credentials)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			http.Error(w, `{"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// readCredentials is the first line of a file, "name:password"; without a file there are none.
func readCredentials(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read credentials: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if name, password, found := strings.Cut(line, ":"); !found || name == "" || password == "" {
		return "", fmt.Errorf("read credentials %s: write name:password", file)
	}
	return line, nil
}

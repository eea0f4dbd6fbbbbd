package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// serving starts a registry and returns its address.
func serving(t *testing.T, credentials string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, "127.0.0.1:0", credentials, out) }()
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the registry ended with %v", err)
		}
	})
	return strings.TrimSpace(strings.TrimPrefix(line, "serving "))
}

func TestServe(t *testing.T) {
	for _, c := range []struct {
		demanded, given string
		want            int
	}{
		{"", "", 200}, {"", "anybody:x", 200},
		{"tom:secret", "tom:secret", 200}, {"tom:secret", "tom:secre", 401}, {"tom:secret", "", 401}, {"tom:secret", "tim:secret", 401},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+serving(t, c.demanded)+"/v2/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if name, password, given := strings.Cut(c.given, ":"); given {
			request.SetBasicAuth(name, password)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != c.want {
			t.Errorf("a registry of %q answers %q with %d, want %d", c.demanded, c.given, response.StatusCode, c.want)
		}
		if asks := response.Header.Get("WWW-Authenticate") != ""; asks != (c.want == 401) {
			t.Errorf("a registry of %q asks %q for credentials: %v", c.demanded, c.given, asks)
		}
	}
}

// What is pushed with docker's credentials can be had again.
func TestPushWithCredentials(t *testing.T) {
	address := serving(t, "tom:secret")
	dir := write(t, example)
	archive := filepath.Join(dir, "top.tar")
	if err := run(t.Context(), []string{"build", "-o", archive, filepath.Join(dir, "top/image.yaml")}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_CONFIG", dir)
	reference := address + "/closed/top:v1"
	if _, err := Push(t.Context(), []string{archive}, reference, true); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a push without credentials: %v, want 401", err)
	}
	config := `{"auths": {"` + address + `": {"username": "tom", "password": "secret"}}}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Push(t.Context(), []string{archive}, reference, true); err != nil {
		t.Error(err)
	}
}

func TestReadCredentials(t *testing.T) {
	dir := write(t, map[string]string{"good": "tom:secret\n", "bad": "tom\n"})
	if got, err := readCredentials(filepath.Join(dir, "good")); got != "tom:secret" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	bad := filepath.Join(dir, "bad")
	if _, err := readCredentials(bad); err == nil || err.Error() != "read credentials "+bad+": write name:password" {
		t.Errorf("got error %v", err)
	}
}

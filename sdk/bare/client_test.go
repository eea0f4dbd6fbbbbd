package bare_test

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// client is one for a server, with a pod's identity.
func client(t *testing.T, handle http.HandlerFunc) (*bare.Client, *bytes.Buffer) {
	t.Helper()
	server := httptest.NewTLSServer(handle)
	t.Cleanup(server.Close)
	root := t.TempDir()
	identity(t, root, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	t.Setenv("FLEX_KUBE_API", server.URL)
	var warnings bytes.Buffer
	c, err := bare.NewClient(root, "flexctl/test", &warnings)
	if err != nil {
		t.Fatal(err)
	}
	return c, &warnings
}

// identity writes that of a pod.
func identity(t *testing.T, root string, ca []byte) {
	t.Helper()
	for name, text := range map[string][]byte{contract.TokenFile: []byte("sesame\n"), contract.CAFile: ca} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAnswers: what the API server, or something before it, can say.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		header [2]string
		body   string
		want   string // the error, empty for none
		exists bool
		after  time.Duration
		warned string
	}{
		"created":    {code: 201, body: `{"kind": "PersistentVolume"}`},
		"warning":    {code: 201, header: [2]string{"Warning", `299 - "old \"field\"` + "\u202e" + `"`}, warned: "Warning: old \"field\"\n"},
		"no warning": {code: 201, header: [2]string{"Warning", "nonsense"}, warned: "Warning: nonsense\n"},
		"cut off":    {code: 201, header: [2]string{"Warning", `299 - "half`}, warned: "Warning: 299 - \"half\n"},
		"exists":     {code: 409, body: `{"kind": "Status", "reason": "AlreadyExists", "message": "there"}`, want: "there", exists: true},
		"conflict":   {code: 409, body: `{"kind": "Status", "reason": "Conflict", "message": "changed"}`, want: "changed"},
		"busy":       {code: 429, header: [2]string{"Retry-After", "7"}, body: `{"kind": "Status", "message": "busy"}`, want: "busy", after: 7 * time.Second},
		"details":    {code: 500, body: `{"kind": "Status", "message": "slow", "details": {"retryAfterSeconds": 3}}`, want: "slow", after: 3 * time.Second},
		"at most":    {code: 500, body: `{"kind": "Status", "message": "slow", "details": {"retryAfterSeconds": 86400}}`, want: "slow", after: time.Hour},
		"no Status":  {code: 500, body: `{"kind": "Pod", "message": "slow"}`, want: `the API server answers 500 Internal Server Error: {"kind": "Pod", "message": "slow"}`},
		"no message": {code: 500, body: `{"kind": "Status"}`, want: `the API server answers 500 Internal Server Error: {"kind": "Status"}`},
		"proxy":      {code: 502, body: "<html>\nno", want: "the API server answers 502 Bad Gateway: <html> no"},
		"redirect":   {code: 307, header: [2]string{"Location", "https://127.0.0.1:1/"}, want: "the API server answers 307 Temporary Redirect"},
		"not made":   {code: 202, want: "the API server answers 202 Accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			client, warnings := client(t, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Method + " " + r.URL.String() + " " + r.Header.Get("Authorization") + " " + r.UserAgent(); got != "POST /api/v1/persistentvolumes?fieldValidation=Strict Bearer sesame flexctl/test" {
					t.Errorf("it sent %s", got)
				}
				if c.header[0] != "" {
					w.Header().Set(c.header[0], c.header[1])
				}
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			})
			err := client.Create(t.Context(), []byte("{}"))
			if c.want == "" != (err == nil) || err != nil && err.Error() != c.want {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			var answer *bare.Answer
			if errors.As(err, &answer) && (answer.Exists != c.exists || answer.RetryAfter != c.after || answer.Code != c.code) {
				t.Errorf("answer %+v", answer)
			}
			if warnings.String() != c.warned {
				t.Errorf("it warned %q, want %q", warnings, c.warned)
			}
		})
	}
}

// TestFindAPIServer: the token is sent to no address that is not the API server's, and never in clear.
func TestFindAPIServer(t *testing.T) {
	const none = "neither FLEX_KUBE_API nor KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are set; is this a provisioner pod?"
	wrong := func(api string) string {
		return fmt.Sprintf("FLEX_KUBE_API is %q; it must be like https://10.96.0.1:443", api)
	}
	for name, c := range map[string]struct{ api, host, port, url, err string }{
		"named":       {api: "https://192.0.2.1:6443", host: "10.96.0.1", port: "443", url: "https://192.0.2.1:6443"},
		"the pod's":   {host: "10.96.0.1", port: "443", url: "https://10.96.0.1:443"},
		"IPv6":        {host: "fd00::1", port: "443", url: "https://[fd00::1]:443"},
		"in clear":    {api: "http://192.0.2.1:6443", err: wrong("http://192.0.2.1:6443")},
		"no scheme":   {api: "192.0.2.1", err: wrong("192.0.2.1")},
		"no host":     {api: "https:///", err: wrong("https:///")},
		"no URL":      {api: "https://[::1", err: wrong("https://[::1")},
		"nothing":     {err: none},
		"a port only": {port: "443", err: none},
		"a host only": {host: "10.96.0.1", err: none},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			identity(t, root, nil)
			for key, value := range map[string]string{"FLEX_KUBE_API": c.api, "KUBERNETES_SERVICE_HOST": c.host, "KUBERNETES_SERVICE_PORT": c.port} {
				t.Setenv(key, value)
			}
			access, err := bare.FindAPIServer(root)
			if access.URL != c.url || c.err == "" != (err == nil) || err != nil && err.Error() != c.err {
				t.Errorf("%s, %v; want %s, %s", access.URL, err, c.url, c.err)
			}
		})
	}
}

// TestNoIdentity: what a pod may lack.
func TestNoIdentity(t *testing.T) {
	t.Setenv("FLEX_KUBE_API", "https://192.0.2.1")
	for _, lacks := range []string{contract.TokenFile, contract.CAFile} {
		root := t.TempDir()
		identity(t, root, nil)
		if err := os.Remove(filepath.Join(root, lacks)); err != nil {
			t.Fatal(err)
		}
		if _, err := bare.NewClient(root, "flexctl/test", io.Discard); !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), "only pods that provision have one") {
			t.Errorf("without %s: %v", lacks, err)
		}
	}
	root := t.TempDir()
	identity(t, root, nil)
	if _, err := bare.NewClient(root, "flexctl/test", io.Discard); err == nil || !strings.HasSuffix(err.Error(), "holds no certificate") {
		t.Errorf("without a certificate: %v", err)
	}
}

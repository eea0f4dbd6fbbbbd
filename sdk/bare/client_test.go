package bare_test

import (
	"bytes"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
)

// client is one for a server, with a pod's identity.
func client(t *testing.T, handle http.HandlerFunc) (*bare.Client, *bytes.Buffer) {
	t.Helper()
	server := httptest.NewTLSServer(handle)
	t.Cleanup(server.Close)
	root := t.TempDir()
	for name, text := range map[string][]byte{contract.TokenFile: []byte("sesame\n"),
		contract.CAFile: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, text, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("FLEX_KUBE_API", server.URL)
	var warnings bytes.Buffer
	c, err := bare.NewClient(root, "flexctl/test", &warnings)
	if err != nil {
		t.Fatal(err)
	}
	return c, &warnings
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
		"exists":     {code: 409, body: `{"kind": "Status", "reason": "AlreadyExists", "message": "there"}`, want: "there", exists: true},
		"conflict":   {code: 409, body: `{"kind": "Status", "reason": "Conflict", "message": "changed"}`, want: "changed"},
		"busy":       {code: 429, header: [2]string{"Retry-After", "7"}, body: `{"kind": "Status", "message": "busy"}`, want: "busy", after: 7 * time.Second},
		"details":    {code: 500, body: `{"kind": "Status", "message": "slow", "details": {"retryAfterSeconds": 3}}`, want: "slow", after: 3 * time.Second},
		"proxy":      {code: 502, body: "<html>\nno", want: "the API server answers 502 Bad Gateway: <html> no"},
		"redirect":   {code: 307, header: [2]string{"Location", "https://127.0.0.1:1/"}, want: "the API server answers 307 Temporary Redirect"},
		"not made":   {code: 202, want: "the API server answers 202 Accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			client, warnings := client(t, func(w http.ResponseWriter, r *http.Request) {
				if got := r.Method + " " + r.URL.String() + " " + r.Header.Get("Authorization") + " " + r.UserAgent(); got != "POST /api/v1/persistentvolumes Bearer sesame flexctl/test" {
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

package bare

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// RequestTimeout limits one request, so that a dead connection is noticed and the request is retried.
const RequestTimeout = 30 * time.Second

// maxAnswer is the limit in bytes on a response. An object of the API has at most 1.5 MiB.
const maxAnswer = 4 << 20

// Access is how the pod reaches the API server.
type Access struct {
	// URL begins with https.
	URL string
	// TokenFile is read for each request, since the kubelet renews the token.
	TokenFile, CAFile string
}

// FindAPIServer returns the API server of FLEX_KUBE_API, or else of KUBERNETES_SERVICE_HOST and _PORT, and the files of the pod's token.
func FindAPIServer(root string) (Access, error) {
	host, err := apiServer()
	if err != nil {
		return Access{}, err
	}
	a := Access{host, filepath.Join(root, contract.TokenFile), filepath.Join(root, contract.CAFile)}
	for _, file := range []string{a.TokenFile, a.CAFile} {
		if _, err := os.Stat(file); err != nil {
			return Access{}, fmt.Errorf("find the pod's identity: %w; only pods that provision have one", err)
		}
	}
	return a, nil
}

func apiServer() (string, error) {
	if api := os.Getenv("FLEX_KUBE_API"); api != "" {
		// Without https the token would be sent unencrypted.
		if parsed, err := url.Parse(api); err != nil || parsed.Scheme != "https" || parsed.Host == "" {
			return "", fmt.Errorf("FLEX_KUBE_API is %q; it must be like https://10.96.0.1:443", api)
		}
		return api, nil
	}
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return "", errors.New("neither FLEX_KUBE_API nor KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are set; is this a provisioner pod?")
	}
	return "https://" + net.JoinHostPort(host, port), nil
}

// Client creates PersistentVolumes, and writes into VolumeAttachments. It has no other method.
type Client struct {
	access Access
	agent  string
	warn   io.Writer
	http   *http.Client
}

// NewClient makes a client for the pod's API server. agent is its User-Agent. The part before the first slash becomes the manager in
// managedFields. The client writes the API server's warnings to warn.
func NewClient(root, agent string, warn io.Writer) (*Client, error) {
	access, err := FindAPIServer(root)
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(access.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the API server's authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("read the API server's authority: %s holds no certificate", access.CAFile)
	}
	// No proxy is used, since those in the environment are for the storage. No redirect is followed, since the token is for the API server.
	return &Client{access, agent, warn, &http.Client{
		Timeout:       RequestTimeout,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Create sends a PersistentVolume, of which the API server has to know every field. If it refuses it, the error is an
// *Answer.
func (c *Client) Create(ctx context.Context, volume []byte) error {
	return c.send(ctx, http.MethodPost, "/api/v1/persistentvolumes?fieldValidation=Strict", "application/json", volume)
}

// patch sends a JSON patch.
func (c *Client) patch(ctx context.Context, path string, patch []byte) error {
	return c.send(ctx, http.MethodPatch, path, "application/json-patch+json", patch)
}

func (c *Client) send(ctx context.Context, method, path, contentType string, body []byte) error {
	token, err := os.ReadFile(c.access.TokenFile)
	if err != nil {
		return fmt.Errorf("read the pod's token: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.access.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + strings.TrimSpace(string(token)), "User-Agent": c.agent,
		"Content-Type": contentType, "Accept": "application/json"} {
		request.Header.Set(name, value)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	c.showWarnings(response.Header)
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("read the API server's answer: %w", err)
	case response.StatusCode == http.StatusOK || response.StatusCode == http.StatusCreated:
		return nil
	}
	return answerOf(response, answer)
}

// showWarnings prints the Warning headers, such as: 299 - "the field is deprecated".
func (c *Client) showWarnings(header http.Header) {
	for _, warning := range header.Values("Warning") {
		_, text, _ := strings.Cut(warning, `"`)
		if quoted, err := strconv.QuotedPrefix(`"` + text); err == nil {
			warning, _ = strconv.Unquote(quoted)
		}
		fmt.Fprintln(c.warn, "Warning:", contract.OneLine(warning))
	}
}

// Answer is an error response of the API server.
type Answer struct {
	// Code is the HTTP status.
	Code int
	// Exists reports whether there is a volume of the name already.
	Exists bool
	// RetryAfter is how long the API server asks the client to wait, 0 if it does not.
	RetryAfter time.Duration
	// Err has the message.
	Err error
}

func (a *Answer) Error() string { return a.Err.Error() }

func (a *Answer) Unwrap() error { return a.Err }

// answerOf reads a Status, or the message of a proxy before the API server.
func answerOf(response *http.Response, body []byte) *Answer {
	var status struct {
		Kind, Message, Reason string
		Details               struct{ RetryAfterSeconds int64 }
	}
	seconds, _ := strconv.ParseInt(response.Header.Get("Retry-After"), 10, 32)
	if json.Unmarshal(body, &status) != nil || status.Kind != "Status" || status.Message == "" {
		status.Message = strings.TrimSuffix(fmt.Sprintf("the API server answers %s: %s", response.Status, contract.OneLine(string(body[:min(len(body), 200)]))), ": ")
	}
	return &Answer{Code: response.StatusCode, Exists: response.StatusCode == http.StatusConflict && status.Reason == "AlreadyExists",
		RetryAfter: time.Duration(max(seconds, min(status.Details.RetryAfterSeconds, 3600))) * time.Second, Err: errors.New(status.Message)}
}

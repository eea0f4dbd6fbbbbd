//go:build integration

package monitoring

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// prometheus is the address of one that runs.
type prometheus string

// startPrometheus collects from the address as from the pod that the ServiceMonitor finds.
func startPrometheus(t *testing.T, from string) prometheus {
	t.Helper()
	binary, err := apiserver.Binary("prometheus")
	if err != nil {
		t.Fatal(err)
	}
	dir, address := t.TempDir(), freeAddress(t)
	config := fmt.Sprintf("scrape_configs:\n- job_name: flex-provisioner\n  scrape_interval: %s\n  scrape_timeout: %s\n  static_configs:\n"+
		"  - targets: [%q]\n    labels: {namespace: flex-system, pod: flex-provisioner-0}\n", scrapes, scrapes, from)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, binary, "--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address)
	awaitReady(t, "http://"+address+"/-/ready")
	return prometheus("http://" + address)
}

// result is one series of an answer.
type result struct {
	Metric map[string]string
	Values [][2]any
}

func (p prometheus) queryRange(t *testing.T, query string, from, to time.Time, step time.Duration) []result {
	t.Helper()
	var data struct{ Result []result }
	p.ask(t, "query_range", url.Values{"query": {query}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {step.String()}}, &data)
	return data.Result
}

func (p prometheus) labelValues(t *testing.T, match, label string, from, to time.Time) []string {
	t.Helper()
	var data []string
	p.ask(t, "label/"+label+"/values", url.Values{"match[]": {match}, "start": {seconds(from)}, "end": {seconds(to)}}, &data)
	return data
}

func seconds(at time.Time) string { return fmt.Sprintf("%d", at.Unix()) }

// ask fails for whatever Prometheus finds to say about a query.
func (p prometheus) ask(t *testing.T, what string, q url.Values, into any) {
	t.Helper()
	response, err := http.Get(string(p) + "/api/v1/" + what + "?" + q.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Error           string
		Warnings, Infos []string
		Data            json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(append(append(answer.Warnings, answer.Infos...), answer.Error), "\n"); said != "" {
		t.Errorf("Prometheus says of %v: %s", q, said)
	}
	if err := json.Unmarshal(answer.Data, into); err != nil {
		t.Fatalf("%s: %v", answer.Data, err)
	}
}

// start runs a program until the test ends, and shows the end of its log if the test failed.
func start(t *testing.T, binary string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), filepath.Base(binary)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // it was told to end
		log.Close()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("%s:\n%s", log.Name(), text[max(0, len(text)-8000):])
		}
	})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func awaitReady(t *testing.T, url string) {
	t.Helper()
	apiserver.Eventually(t, func() error {
		response, err := http.Get(url)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("get %s: %s", url, response.Status)
		}
		return nil
	})
}

//go:build integration

// Package monitoring tests what deploy/monitoring asks of Prometheus, with promtool.
package monitoring

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const root = "../../.."

// rules is a PrometheusRule, as far as it is read here.
type rules struct {
	Spec struct {
		Groups []struct {
			Rules []struct {
				Alert string `json:"alert"`
			} `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

// cases is a file for promtool, as far as it is read here.
type cases struct {
	Tests []struct {
		Alerts []struct {
			Alert    string `json:"alertname"`
			Expected []any  `json:"exp_alerts"`
		} `json:"alert_rule_test"`
	} `json:"tests"`
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
}

// TestAlerts has promtool try the alerts on series that are written down.
func TestAlerts(t *testing.T) {
	var object map[string]any
	readYAML(t, filepath.Join(root, "deploy/monitoring/alerts.yaml"), &object)
	spec, err := yaml.Marshal(object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tests, err := os.ReadFile("testdata/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"rules.yaml": spec, "alerts.yaml": tests} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	promtool, err := filepath.Abs(filepath.Join(root, ".cluster/bin/promtool"))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"}, {"test", "rules", "alerts.yaml"}} {
		command := exec.CommandContext(t.Context(), promtool, args...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %q (test/cluster/build.sh prometheus builds it): %v\n%s", args, err, out)
		}
	}
}

// TestEveryAlertIsTested: each alert fires in one of the cases, and is silent in another.
func TestEveryAlertIsTested(t *testing.T) {
	var alerts rules
	var tried cases
	readYAML(t, filepath.Join(root, "deploy/monitoring/alerts.yaml"), &alerts)
	readYAML(t, "testdata/alerts.yaml", &tried)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range tried.Tests {
		for _, c := range test.Alerts {
			if len(c.Expected) > 0 {
				fires[c.Alert] = true
			} else {
				silent[c.Alert] = true
			}
		}
	}
	for _, group := range alerts.Spec.Groups {
		for _, rule := range group.Rules {
			if !fires[rule.Alert] || !silent[rule.Alert] {
				t.Errorf("testdata/alerts.yaml: %s fires: %t, is silent: %t; want a case of each", rule.Alert, fires[rule.Alert], silent[rule.Alert])
			}
		}
	}
	if len(fires) == 0 {
		t.Error("no alert is tested")
	}
}

// TestInstallation: what kubectl applies is whole, in the dispatcher's namespace, and collects from the Service that deploy/base has.
func TestInstallation(t *testing.T) {
	kubectl, err := filepath.Abs(filepath.Join(root, ".cluster/bin/kubectl"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), kubectl, "kustomize", filepath.Join(root, "deploy/monitoring")).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl kustomize: %v\n%s", err, text)
	}
	var monitor struct {
		Spec struct {
			Selector  struct{ MatchLabels map[string]string }
			Endpoints []struct{ Port string }
		}
	}
	var service struct {
		Metadata struct{ Labels map[string]string }
		Spec     struct{ Ports []struct{ Name string } }
	}
	var found []string
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		var object struct {
			Kind     string
			Metadata struct{ Namespace, Name string }
		}
		if err := yaml.Unmarshal([]byte(part), &object); err != nil {
			t.Fatal(err)
		}
		found = append(found, object.Kind+" "+object.Metadata.Namespace+"/"+object.Metadata.Name)
		if object.Kind == "ServiceMonitor" {
			if err := yaml.Unmarshal([]byte(part), &monitor); err != nil {
				t.Fatal(err)
			}
		}
	}
	slices.Sort(found)
	want := []string{"ConfigMap flex-system/flex-provisioner-dashboard", "PrometheusRule flex-system/flex-provisioner", "ServiceMonitor flex-system/flex-provisioner"}
	if !slices.Equal(found, want) {
		t.Errorf("installed are %q, want %q", found, want)
	}
	readYAML(t, filepath.Join(root, "deploy/base/service.yaml"), &service)
	for key, value := range monitor.Spec.Selector.MatchLabels {
		if service.Metadata.Labels[key] != value {
			t.Errorf("the ServiceMonitor selects %s=%s, the Service has %v", key, value, service.Metadata.Labels)
		}
	}
	if len(monitor.Spec.Endpoints) != 1 || monitor.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name {
		t.Errorf("the ServiceMonitor has endpoints %v, the Service ports %v", monitor.Spec.Endpoints, service.Spec.Ports)
	}
}

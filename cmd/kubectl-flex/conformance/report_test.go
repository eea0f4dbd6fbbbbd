package conformance_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/conformance"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// mixed has a result of each kind.
func mixed() *conformance.Report {
	finding := conformance.Finding{Expected: "exit code 0", Came: "exit code 1, saying: <no>", Remedy: "mkdir -p", Log: "mkdir: x\nFile exists"}
	result := func(name string, required bool, status conformance.Status, reason string, findings ...conformance.Finding) conformance.Result {
		return conformance.Result{Name: name, Required: required, Status: status, Reason: reason, Rule: "rule 3", Did: "it twice",
			Findings: findings, Took: 1500 * time.Millisecond}
	}
	return &conformance.Report{Subject: "script x.sh", Runs: 7, Results: []conformance.Result{
		result("one", true, conformance.Passed, ""),
		result("two", true, conformance.Failed, "", finding),
		result("three", true, conformance.Skipped, "the kit is blind"),
		result("four", false, conformance.Failed, "", finding),
		result("five", false, conformance.Skipped, "the kit is blind"),
		result("six", true, conformance.NotApplicable, "it is another kind"),
	}}
}

func TestReport(t *testing.T) {
	golden(t, "testdata/report.txt", text(t, mixed())+"\n")
	var junit bytes.Buffer
	if err := mixed().WriteJUnit(&junit); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/report.xml", junit.String())
	if err := xml.Unmarshal(junit.Bytes(), new(struct{})); err != nil {
		t.Error(err)
	}
}

// What a provisioner says cannot write lines of the report, nor to the terminal, in none of the forms of a report.
func TestHostileReport(t *testing.T) {
	const hostile = "no\x1b[2J\nok    one\r\u202e\u009b\x7f\x00\u2028"
	var report conformance.Report
	var told conformance.Result
	report.Add(conformance.Result{Name: "one", Required: true, Status: conformance.Failed, Reason: hostile, Rule: "rule 3", Did: "it",
		Findings: []conformance.Finding{{hostile, hostile, hostile, hostile + strings.Repeat("x", 1<<20)}}}, func(r conformance.Result) { told = r })
	report.Judge()
	var asText, junit bytes.Buffer
	if err := errors.Join(told.WriteText(&asText), report.WriteJUnit(&junit)); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for form, text := range map[string]string{"text": asText.String(), "JUnit": junit.String(), "JSON": string(asJSON)} {
		if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%s has characters that are not printable: %q", form, text[:2000])
		}
		if len(text) > 128<<10 {
			t.Errorf("%s has %d bytes", form, len(text))
		}
	}
	if strings.Count("\n"+asText.String(), "\nok ") != 0 || !strings.HasPrefix(asText.String(), "FAIL  one                no [2J ok one\n") {
		t.Errorf("a line was forged:\n%.300s", asText.String())
	}
}

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		passed bool
		keep   int
		want   string
	}{
		{true, 1, "script x.sh conforms to the contract: 1 ok, 0 failed, 0 required but skipped, 0 warnings, 0 skipped, 0 not applicable; 7 pods"},
		{false, 2, "script x.sh does NOT conform to the contract: 1 ok, 1 failed, 0 required but skipped, 0 warnings, 0 skipped, 0 not applicable; 7 pods"},
	} {
		report := mixed()
		report.Passed, report.Results = c.passed, report.Results[:c.keep]
		if got := report.Summary(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	skipped := mixed()
	skipped.Results = skipped.Results[2:3]
	const want = "script x.sh is NOT known to conform to the contract: 0 ok, 0 failed, 1 required but skipped, 0 warnings, 0 skipped, 0 not applicable; 7 pods"
	if got := skipped.Summary(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; run go test -update", err)
	}
	if got != string(want) {
		t.Errorf("%s:\n--- got\n%s--- want\n%s", file, got, want)
	}
}

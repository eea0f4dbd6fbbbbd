package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Status is the status of a check.
type Status string

// The statuses. A check that could not run has not passed.
const (
	Passed        Status = "passed"
	Failed        Status = "failed"
	Skipped       Status = "skipped"
	NotApplicable Status = "not-applicable"
)

// Report is the report about a provisioner.
type Report struct {
	// Subject is what was checked.
	Subject string `json:"subject"`
	// Passed reports whether all required checks passed.
	Passed bool `json:"passed"`
	// Runs is the number of pods.
	Runs    int      `json:"runs"`
	Results []Result `json:"results"`
}

// Result is the result of a check.
type Result struct {
	Name     string `json:"name"`
	Required bool   `json:"required"`
	Status   Status `json:"status"`
	// Reason is why the check was skipped or does not apply.
	Reason   string        `json:"reason,omitempty"`
	Rule     string        `json:"rule"`
	Did      string        `json:"did"`
	Findings []Finding     `json:"findings,omitempty"`
	Took     time.Duration `json:"tookNanoseconds"`
}

// Finding is one way in which a provisioner did not do what it should.
type Finding struct {
	Expected string `json:"expected"`
	Came     string `json:"came"`
	Remedy   string `json:"remedy"`
	// Log is the end of what the pod printed.
	Log string `json:"log,omitempty"`
}

// maxShown is the limit in bytes on each text of a result.
const maxShown = 8 << 10

// Add adds a result, and calls done with it, which may be nil. It removes special characters from texts of images, pods and the API
// server, for all formats of the report.
func (r *Report) Add(result Result, done func(Result)) {
	lines := func(text string) string { return contract.Clip(contract.Lines(text), maxShown) }
	result.Reason = contract.Clip(contract.OneLine(result.Reason), maxShown)
	result.Findings = slices.Clone(result.Findings)
	for i, f := range result.Findings {
		result.Findings[i] = Finding{lines(f.Expected), lines(f.Came), lines(f.Remedy), lines(f.Log)}
	}
	r.Results = append(r.Results, result)
	if done != nil {
		done(result)
	}
}

// Judge sets Passed.
func (r *Report) Judge() { r.Passed = !slices.ContainsFunc(r.Results, Result.stands) }

// stands in the way of the whole.
func (r Result) stands() bool { return r.Required && (r.Status == Failed || r.Status == Skipped) }

// mark is the first word of the result's line.
func (r Result) mark() string {
	switch {
	case r.Status == Passed:
		return "ok"
	case r.Status == Failed && r.Required:
		return "FAIL"
	case r.Status == Failed:
		return "warn"
	case r.Status == Skipped && r.Required:
		return "SKIP"
	case r.Status == Skipped:
		return "skip"
	}
	return "n/a"
}

// WriteText writes a result for people.
func (r Result) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-5s %-18s", r.mark(), r.Name)
	if r.Reason != "" {
		fmt.Fprintf(&b, " %s", r.Reason)
	} else {
		fmt.Fprintf(&b, " %.1fs", r.Took.Seconds())
	}
	b.WriteString("\n")
	if len(r.Findings) > 0 {
		fmt.Fprintf(&b, "      rule      %s\n      did       %s\n", r.Rule, r.Did)
	}
	for _, f := range r.Findings {
		for _, part := range []struct{ name, text string }{{"expected", f.Expected}, {"came", f.Came}, {"remedy", f.Remedy}, {"log", f.Log}} {
			if part.text != "" {
				fmt.Fprintf(&b, "      %-8s  %s\n", part.name, strings.ReplaceAll(part.text, "\n", "\n                "))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Summary is the report's last line.
func (r *Report) Summary() string {
	count := map[string]int{}
	for _, result := range r.Results {
		count[result.mark()]++
	}
	verdict := "conforms to the contract"
	if !r.Passed {
		verdict = "does NOT conform to the contract"
		if count["FAIL"] == 0 {
			verdict = "is NOT known to conform to the contract"
		}
	}
	return fmt.Sprintf("%s %s: %d ok, %d failed, %d required but skipped, %d warnings, %d skipped, %d not applicable; %d pods",
		r.Subject, verdict, count["ok"], count["FAIL"], count["SKIP"], count["warn"], count["skip"], count["n/a"], r.Runs)
}

// WriteJUnit writes the report as JUnit XML, for CI systems. A required check that was skipped is an error, and advice that was not
// followed is no failure.
func (r *Report) WriteJUnit(w io.Writer) error {
	type note struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	type testCase struct {
		Class   string `xml:"classname,attr"`
		Name    string `xml:"name,attr"`
		Time    string `xml:"time,attr"`
		Failure *note  `xml:"failure"`
		Error   *note  `xml:"error"`
		Skipped *note  `xml:"skipped"`
		Out     string `xml:"system-out,omitempty"`
	}
	type suite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Cases    []testCase `xml:"testcase"`
	}
	all := suite{Name: r.Subject, Tests: len(r.Results)}
	for _, result := range r.Results {
		c := testCase{Class: "conformance", Name: result.Name, Time: fmt.Sprintf("%.3f", result.Took.Seconds())}
		var text strings.Builder
		if err := result.WriteText(&text); err != nil {
			return err
		}
		switch result.mark() {
		case "FAIL":
			all.Failures++
			c.Failure = &note{result.Findings[0].Came, text.String()}
		case "SKIP":
			all.Errors++
			c.Error = &note{result.Reason, ""}
		case "skip", "n/a":
			all.Skipped++
			c.Skipped = &note{result.Reason, ""}
		case "warn":
			c.Out = text.String()
		}
		all.Cases = append(all.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return fmt.Errorf("write report as JUnit: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

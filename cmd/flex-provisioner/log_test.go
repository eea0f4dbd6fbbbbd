package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"k8s.io/klog/v2"
)

const hostile = "no\nI1123 12:00:00.000000       1 x.go:1] \"Forged\"\n\x1b[2J\r\u202e\u009b\x7f\x00\u2028end"

// fit says that a text has nothing but printable characters, tabs and line ends.
func fit(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) })
}

// Nothing that is logged reaches a terminal raw, or can pass for a record of its own.
func TestLog(t *testing.T) {
	defer klog.CaptureState().Restore()
	var out bytes.Buffer
	if err := setUpLogging(&out, formatText, "2"); err != nil {
		t.Fatal(err)
	}
	logger := klog.FromContext(context.Background())
	logger.Info("Reported", "message", hostile, "error", errors.New(hostile))
	logger.Error(errors.New(hostile), "Could not reconcile, will retry", "claimUID", hostile)
	logger.V(2).Info("Said at this verbosity")
	logger.V(3).Info("Not said")
	klog.Infof("a library: %s", hostile)
	klog.Flush()
	if !fit(out.String()) {
		t.Errorf("the log has characters that are not printable: %q", out.String())
	}
	if n := len(regexp.MustCompile(`(?m)^[IWEF]`).FindAllString(out.String(), -1)); n != 4 {
		t.Errorf("the log has %d records, want 4:\n%s", n, out.String())
	}
}

// stringer is a value that has its text from a method.
type stringer string

func (s stringer) String() string { return string(s) }

// pointed is a value whose text cannot be had of a nil pointer.
type pointed struct{ text string }

func (p *pointed) String() string { return p.text }
func (p *pointed) Error() string  { return p.text }

// A value without a text ends no program: the record says what it can.
func TestNilInLog(t *testing.T) {
	for _, format := range []string{formatText, formatJSON} {
		state := klog.CaptureState()
		var out bytes.Buffer
		if err := setUpLogging(&out, format, "2"); err != nil {
			t.Fatal(err)
		}
		logger, none := klog.FromContext(context.Background()), (*pointed)(nil)
		logger.Info("Reported as stringer", "volume", fmt.Stringer(none))
		logger.Info("Reported as error", "err", error(none))
		logger.Error(none, "Reported as such")
		klog.Flush()
		state.Restore()

		if n := strings.Count(out.String(), "Reported"); n != 3 {
			t.Errorf("%s: %d records, want 3: %s", format, n, out.String())
		}
	}
}

// Whatever is logged of others' texts, a record is of a bounded size, in each format.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("x", 200<<10)
	for _, format := range []string{formatText, formatJSON} {
		state := klog.CaptureState()
		var out bytes.Buffer
		if err := setUpLogging(&out, format, "2"); err != nil {
			t.Fatal(err)
		}
		logger := klog.FromContext(context.Background())
		for what, log := range map[string]func(){
			"value":         func() { logger.Info("Reported", "class", long) },
			"stringer":      func() { logger.Info("Reported", "class", stringer(long)) },
			"error as such": func() { logger.Error(errors.New(long), "Could not reconcile, will retry") },
			"error":         func() { logger.Info("Ignored", "err", fmt.Errorf("ConfigMap: %w", errors.New(long))) },
			"message":       func() { logger.Info(long) },
			"lasting value": func() { logger.WithName("a").WithValues("class", long).Info("Reported") },
			"library":       func() { klog.Errorf("class %s", long) },
		} {
			out.Reset()
			log()
			klog.Flush()
			if out.Len() < 1000 || out.Len() > 3000 {
				t.Errorf("%s, %s: a record has %d bytes", format, what, out.Len())
			}
			if format == formatText && what != "library" && !strings.Contains(out.String(), " log_test.go:") {
				t.Errorf("%s: the record is not of this file: %.60s", what, out.String())
			}
		}
		state.Restore()
	}
}

func TestVerbosityIsANumber(t *testing.T) {
	if err := setUpLogging(nil, formatText, "many"); err == nil || !strings.HasPrefix(err.Error(), "--v=many: give a number: ") {
		t.Errorf("error %v", err)
	}
}

// As JSON each record is one line that is an object, whatever was logged, with the keys that were given.
func TestJSONLog(t *testing.T) {
	defer klog.CaptureState().Restore()
	var out bytes.Buffer
	if err := setUpLogging(&out, formatJSON, "2"); err != nil {
		t.Fatal(err)
	}
	logger := klog.FromContext(context.Background())
	logger.Info("Reported", "message", hostile, "configMap", klog.KRef("ns", "cm"), "took", time.Second)
	logger.Error(errors.New(hostile), "Could not reconcile, will retry", "claimUID", hostile)
	logger.V(2).Info("Said at this verbosity")
	logger.V(3).Info("Not said")
	klog.Infof("a library: %s", hostile)
	klog.Flush()
	if !fit(out.String()) {
		t.Errorf("the log has characters that are not printable: %q", out.String())
	}
	var records []map[string]any
	for line := range strings.Lines(out.String()) {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		records = append(records, record)
	}
	if len(records) != 4 || records[0]["msg"] != "Reported" || records[0]["level"] != "INFO" || records[1]["level"] != "ERROR" || records[1]["claimUID"] == "" ||
		fmt.Sprint(records[0]["configMap"]) != "map[name:cm namespace:ns]" {
		t.Errorf("the records are %v", records)
	}
}

func TestFormatIsKnown(t *testing.T) {
	if err := setUpLogging(nil, "yaml", "0"); err == nil || err.Error() != "--logging-format=yaml: say text or json" {
		t.Errorf("error %v", err)
	}
}

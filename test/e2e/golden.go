//go:build e2e

package e2e

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

var rewrite = flag.Bool("update", false, "write the golden files anew")

// varying is what differs from run to run, and the word that stands for it in golden files.
var varying = []struct {
	pattern *regexp.Regexp
	word    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`\b(prov|del|exp)-UID-[1-9]\d*`), "$1-UID-N"},
	{regexp.MustCompile(`\battempt [1-9]\d*`), "attempt N"},
	{regexp.MustCompile(`, for \d+[0-9dhms]*\n`), ", for AGE\n"},
	{regexp.MustCompile(`the next attempt is (in \d+[0-9hms]*|due)`), "the next attempt is in TIME"},
	{regexp.MustCompile(` \(\d+ times\)`), ""},
	{regexp.MustCompile(`\bnode\d\b`), "NODE"},
	{regexp.MustCompile(`\b0/\d+ nodes are available: [^\n]*?( \(pod |\n)`), "0/N nodes are available: WHY$1"},
	{regexp.MustCompile(`\bversion \d+`), "version N"},
	{regexp.MustCompile(`; (it printed nothing|its log cannot be read)\n`), "; LOG\n"}, // its node may have removed it already
	{regexp.MustCompile(`ValidatingAdmissionPolicy\S* \S+ is not as shipped: [^\n]*`), "ValidatingAdmissionPolicy POLICY is not as shipped: WHAT"},
}

// stable replaces what differs from run to run. What is said several times is there once.
func (s *scope) stable(text string) string {
	text = strings.NewReplacer(s.name+"-", "", s.name, "team-a", export, "EXPORT").Replace(text)
	for _, v := range varying {
		text = v.pattern.ReplaceAllString(text, v.word)
	}
	seen := map[string]bool{}
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		if strings.HasPrefix(line, "tom$ ") {
			clear(seen)
		}
		again := strings.HasPrefix(line, "TIME  ") && seen[line]
		seen[line] = true
		return again
	}), "\n")
}

// expected is a text without the events of others that the golden file does not have: on a busy machine the kubelet, the scheduler and
// the volume controller have more to say.
func expected(text, golden string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "TIME  event of ") && !strings.Contains(golden, line+"\n")
	}), "\n")
}

// unordered is a text without the order of what happened within a second or two, which differs.
func unordered(text string) string {
	lines := strings.Split(text, "\n")
	for from := 0; from < len(lines); from++ {
		to := from
		for to < len(lines) && strings.HasPrefix(lines[to], "TIME  ") {
			to++
		}
		slices.Sort(lines[from:to])
		from = max(from, to-1)
	}
	return strings.Join(lines, "\n")
}

// shows waits until something says what a golden file has. With -update it waits until what it says will do and no longer changes, and
// writes the file.
func (s *scope) shows(file string, willDo func(string) bool, say func() string) {
	s.Helper()
	file = filepath.Join("testdata", file)
	want, err := os.ReadFile(file)
	if !*rewrite && err != nil {
		s.Fatalf("%v; -update writes it", err)
	}
	deadline, tick := time.After(patient), time.NewTicker(time.Second)
	defer tick.Stop()
	last, same := "", 0
	for {
		got := s.stable(say())
		if got != last {
			last, same = got, 0
		}
		same++
		switch {
		case *rewrite && same >= 3 && willDo(got):
			s.ok(os.MkdirAll(filepath.Dir(file), 0o755))
			s.ok(os.WriteFile(file, []byte(got), 0o644))
			return
		case !*rewrite && unordered(expected(got, string(want))) == unordered(string(want)):
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			s.Errorf("within %s it does not say what %s has:\n%s", patient, file, difference(s, file, got))
			return
		}
	}
}

// difference is what diff says of a file and a text.
func difference(s *scope, file, text string) string {
	cmd := exec.CommandContext(s.Context(), "diff", "-U", "30", file, "-")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return text
	}
	return string(out)
}

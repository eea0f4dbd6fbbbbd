package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// firstScreen is README.md up to its first section.
func firstScreen(t *testing.T) string {
	t.Helper()
	screen, _, _ := strings.Cut(read(t, "README.md"), "\n## ")
	return screen
}

// TestFirstSentence: what it is about is in the first sentence.
func TestFirstSentence(t *testing.T) {
	_, text, _ := strings.Cut(firstScreen(t), "\n\n")
	if sentence, _, _ := strings.Cut(text, "."); !strings.Contains(sentence, "PersistentVolumeClaim") {
		t.Errorf("README.md begins with %q, which does not say PersistentVolumeClaim", sentence)
	}
}

// TestFiguresOfReadme: each figure of README.md's first screen is the one of its source, and there is none without a source.
// -update writes them.
func TestFiguresOfReadme(t *testing.T) {
	// Each names its figure by a group.
	phrases := []struct{ phrase, figure string }{
		{`a claim is Bound (\S+) ms after its creation`, measured(t, "Real pods, PLEG default", "claim created to Bound", 0)},
		{`a bare pod there takes (\S+) ms to its end`, measured(t, "Real pods, PLEG default", "bare pod: create to Succeeded", 0)},
		{`storage tests\]\(docs/upstream.md\) (\d+) pass for directories of nodes`, passed(t, "hostpath")},
		{`Of the same tests (\d+) pass`, passed(t, "nfs-subdir")},
		{`the slowest of a hundred claims is Bound after (\S+) ms`, measured(t, isolation, "beside them: claim created to Bound", 1)},
		{`beside (\S+) claims in trouble`, thousands(sum(isolation[len("Isolation: 400 claims beside "):]))},
		{`and after (\S+) ms without them`, measured(t, isolation, "idle: claim created to Bound", 1)},
		{`a test for each of \[(\d+) points\]\(docs/crash-points.md\)`, crashPoints(t)},
		{`A restart with (\S+) claims in flight`, thousands(10000)},
		{`in flight takes (\S+) s\.`, measured(t, "Memory and start: 10000 claims in flight", "restart: process started to all adopted", 0)},
		{`With (\S+) bound volumes`, thousands(50000)},
		{`the dispatcher has (\S+) MB`, measured(t, "Memory and start: 50000 bound volumes", "resident memory", 0)},
		{`a burst of (\S+) claims binds`, thousands(1000)},
		{`claims binds (\S+) a second`, measured(t, "Burst of 1000 claims", "ours: bound", 0)},
	}
	text := read(t, "README.md")
	screen := firstScreen(t)
	_, rest, _ := strings.Cut(text, screen)
	flat := strings.Join(strings.Fields(screen), " ") // a phrase may be broken over two lines
	left := []byte(flat)                              // without the figures that are compared
	for _, p := range phrases {
		pattern := regexp.MustCompile(p.phrase)
		match := pattern.FindStringSubmatch(flat)
		if match != nil {
			at := pattern.FindStringSubmatchIndex(flat)
			copy(left[at[2]:at[3]], strings.Repeat(" ", at[3]-at[2]))
		}
		switch {
		case match == nil:
			t.Errorf("README.md's first screen does not have %q", p.phrase)
		case match[1] != p.figure && *update:
			words := strings.Fields(strings.Replace(match[0], match[1], "\x00", 1))
			for i, word := range words {
				words[i] = strings.ReplaceAll(regexp.QuoteMeta(word), "\x00", ")"+regexp.QuoteMeta(match[1])+"(")
			}
			screen = regexp.MustCompile(`(`+strings.Join(words, `\s+`)+`)`).ReplaceAllString(screen, "${1}"+p.figure+"${2}")
		case match[1] != p.figure:
			t.Errorf("README.md says %q, and its source %s; -update writes it", match[0], p.figure)
		}
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, "README.md"), []byte(screen+rest), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, number := range regexp.MustCompile(`\b\d[\d.,]*`).FindAllString(strings.ReplaceAll(string(left), "Kubernetes 1.30 or newer", ""), -1) {
		t.Errorf("README.md's first screen has the figure %s, whose source this test does not know", number)
	}
}

const isolation = "Isolation: 400 claims beside 1000 that hang and 1000 without an image"

// measured is a figure of docs/performance.md, which TestPerformance compares with docs/performance.json: its median, or its p99.
func measured(t *testing.T, heading, what string, column int) string {
	t.Helper()
	for _, row := range table(t, section(t, "docs/performance.md", "### "+heading)) {
		if row[0] == what && row[1+column] != "" {
			return row[1+column]
		}
	}
	t.Fatalf("docs/performance.md has no figure %q below %q", what, heading)
	return ""
}

// passed is how many of Kubernetes' tests a class passes.
func passed(t *testing.T, class string) string {
	t.Helper()
	var results struct {
		Classes []struct {
			Name  string
			Tests map[string]string
		}
	}
	if err := json.Unmarshal([]byte(read(t, "docs/upstream.json")), &results); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range results.Classes {
		for _, state := range c.Tests {
			if c.Name == class && state == "passed" {
				n++
			}
		}
	}
	return strconv.Itoa(n)
}

func crashPoints(t *testing.T) string {
	t.Helper()
	points, _, _ := strings.Cut(read(t, "docs/crash-points.md"), "\n## ")
	return strconv.Itoa(len(table(t, points)))
}

// sum adds up the numbers in a text.
func sum(text string) int {
	total := 0
	for _, number := range regexp.MustCompile(`\d+`).FindAllString(text, -1) {
		n, _ := strconv.Atoi(number)
		total += n
	}
	return total
}

// thousands is a number as prose has it: 10,000.
func thousands(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return strconv.Itoa(n/1000) + "," + strconv.Itoa(1000 + n%1000)[1:]
}

package documents

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Split returns the YAML documents of a file. Empty lines replace what comes before a document, so that the parser's errors have the line
// numbers of the file.
func Split(data []byte) [][]byte {
	var all [][]byte
	var one []byte
	number, begins := 0, true
	for line := range bytes.Lines(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		switch text := bytes.TrimSpace(line); {
		case begins && bytes.HasPrefix(line, []byte("%")):
			line = []byte("\n") // the parser does not need directives
		case len(text) > 0 && text[0] != '#':
			begins = false
		}
		if bytes.HasPrefix(line, []byte("---")) {
			all, one = append(all, one), bytes.Repeat([]byte("\n"), number)
			line = append([]byte("   "), line[3:]...) // text after a separator is part of the document
		}
		one = append(one, line...)
		number++
	}
	return append(all, one)
}

var yamlError = regexp.MustCompile(`^(?:error converting YAML to JSON: )?yaml: (?:unmarshal errors:\s+)?(?:line (\d+): )?((?s:.*))$`)

// NotYAML is a parser's error about text with the line, and with a remedy for frequent faults. The parser omits the line number of the first
// line, and often finds a fault one or two lines late.
func NotYAML(name string, text []byte, err error) error {
	match := yamlError.FindStringSubmatch(err.Error())
	if match == nil {
		return fmt.Errorf("%s is not YAML: %w", name, err)
	}
	line, _ := strconv.Atoi(match[1])
	line = max(line, 1)
	message := fmt.Sprintf("%s line %d: is not YAML: %s", name, line, contract.Clean(match[2]))
	lines := bytes.Split(text, []byte("\n"))
	for n := max(line-2, 1); n <= min(line, len(lines)); n++ {
		switch at := lines[n-1]; {
		case tabbed.Match(at):
			return fmt.Errorf("%s; line %d is indented with a tab: use spaces", message, n)
		case unspaced.Match(at):
			return fmt.Errorf("%s; line %d: write a space after %q", message, n, unspaced.FindSubmatch(at)[1])
		}
	}
	return errors.New(message)
}

var (
	tabbed   = regexp.MustCompile(`^ *\t`)
	unspaced = regexp.MustCompile(`^\s*([A-Za-z0-9._-]+:)[^\s/]`)
)

package documents

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// Split gives the YAML documents of a file, each after as many empty lines as there are lines before it: so the parser's errors name
// the file's lines.
func Split(data []byte) [][]byte {
	var all [][]byte
	var one []byte
	number, begins := 0, true
	for line := range bytes.Lines(bytes.TrimPrefix(data, []byte("\ufeff"))) {
		switch text := bytes.TrimSpace(line); {
		case begins && bytes.HasPrefix(line, []byte("%")):
			line = []byte("\n") // a directive says nothing that the parser needs
		case len(text) > 0 && text[0] != '#':
			begins = false
		}
		if bytes.HasPrefix(line, []byte("---")) {
			all, one = append(all, one), bytes.Repeat([]byte("\n"), number)
			line = append([]byte("   "), line[3:]...) // what a separator may be followed by is part of the document
		}
		one = append(one, line...)
		number++
	}
	return append(all, one)
}

var yamlError = regexp.MustCompile(`^(?:error converting YAML to JSON: )?yaml: (?:unmarshal errors:\s+)?(?:line (\d+): )?((?s:.*))$`)

// NotYAML is what a parser's error says of text, which comes from a file or elsewhere, with the line and where it can be seen a remedy.
// The parser counts lines from 1, leaves the first one out, and often finds a fault a line or two late.
func NotYAML(name string, text []byte, err error) error {
	match := yamlError.FindStringSubmatch(err.Error())
	if match == nil {
		return fmt.Errorf("%s is no YAML: %w", name, err)
	}
	line, _ := strconv.Atoi(match[1])
	line = max(line, 1)
	said := fmt.Sprintf("%s line %d: is no YAML: %s", name, line, contract.Clean(match[2]))
	lines := bytes.Split(text, []byte("\n"))
	for n := max(line-2, 1); n <= min(line, len(lines)); n++ {
		switch at := lines[n-1]; {
		case tabbed.Match(at):
			return fmt.Errorf("%s; line %d is indented with a tab: use spaces", said, n)
		case unspaced.Match(at):
			return fmt.Errorf("%s; line %d: write a space after %q", said, n, unspaced.FindSubmatch(at)[1])
		}
	}
	return errors.New(said)
}

var (
	tabbed   = regexp.MustCompile(`^ *\t`)
	unspaced = regexp.MustCompile(`^\s*([A-Za-z0-9._-]+:)[^\s/]`)
)

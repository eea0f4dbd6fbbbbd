package cloud

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// isRCFile reports whether the file is a shell script of OpenStack with credentials, by a name such as openrc or demo-openrc.sh.
func isRCFile(name string) bool { return strings.Contains(name, "openrc") }

// assignment is a shell's assignment to a variable.
type assignment struct {
	variable, where string
	value           string
	// open reports whether only a shell can determine the value, for instance by a prompt or from another variable.
	open bool
}

// assigned matches the beginning of a line with an assignment. Other lines of such a file, such as read, echo and if, are ignored.
var assigned = regexp.MustCompile(`^(?:export[ \t]+|declare[ \t]+-x[ \t]+)?(OS_[A-Z0-9_]+)=`)

var (
	// hidden matches an assignment that assigned does not match.
	hidden = regexp.MustCompile(`(?:^|[^A-Za-z0-9_$])OS_[A-Z0-9_]+\+?=`)
	// unsets matches a command that unsets variables.
	unsets  = regexp.MustCompile(`^unset[ \t]+(?:-v[ \t]+)?((?:OS_[A-Z0-9_]+[ \t]*)+)(?:[;#].*)?$`)
	comment = regexp.MustCompile(`(?:^|[ \t;])#.*`)
	// prints matches a command that only prints a text.
	prints = regexp.MustCompile(`^(?:echo|printf)[ \t][^;&|]*$`)
)

// hidesAssignment reports whether text has an assignment to an OS_ variable outside of a comment.
func hidesAssignment(text string) bool { return hidden.MatchString(comment.ReplaceAllString(text, "")) }

// readRCFile reads the assignments to OS_ variables and runs nothing. In a shell the last assignment counts.
func readRCFile(file, text string) ([]assignment, error) {
	found := map[string]assignment{}
	var order []string
	var errs []error
	for i, line := range strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n") {
		line = strings.Trim(line, blank)
		match := assigned.FindStringSubmatch(line)
		if match == nil {
			if hidesAssignment(line) && !prints.MatchString(line) { // its name may be part of a secret
				errs = append(errs, fmt.Errorf("%s line %d: sets a variable OS_ in a form that is not read: write export NAME=VALUE on a line of its own", file, i+1))
			}
			if unset := unsets.FindStringSubmatch(line); unset != nil {
				for _, variable := range strings.Fields(unset[1]) {
					if a, set := found[variable]; set && (a.open || a.value != "") {
						errs = append(errs, fmt.Errorf("%s line %d: unsets %s, which an earlier line sets: keep one of the lines", file, i+1, variable))
					}
				}
			}
			continue
		}
		a := assignment{variable: match[1], where: fmt.Sprintf("%s line %d: %s", file, i+1, match[1])}
		var err error
		text := line[len(match[0]):]
		if a.value, a.open, err = shellWord(text); err == nil && a.open && hidesAssignment(text) {
			err = errSecond
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a.where, err))
			continue
		}
		if _, again := found[a.variable]; !again {
			order = append(order, a.variable)
		}
		found[a.variable] = a
	}
	var all []assignment
	for _, variable := range order {
		all = append(all, found[variable])
	}
	return all, join(errs)
}

// shellWord is the first word of text by the rules of a shell. It is open if it has an expansion by $ or `. No error shows the text,
// which may be a password.
func shellWord(text string) (word string, open bool, err error) {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == 0 && strings.IndexByte(" \t;", c) >= 0:
			return b.String(), false, afterWord(text[i:])
		case quote == 0 && strings.IndexByte("&|<>()", c) >= 0:
			return "", false, errors.New("needs a shell: put the value into single quotes")
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case c == quote:
			quote = 0
		case quote != '\'' && (c == '`' || c == '$' && i+1 < len(text) && (expands(text[i+1]) || quote == 0 && text[i+1] != ' ')):
			return "", true, nil
		case quote != '\'' && c == '\\':
			i++
			switch {
			case i == len(text):
				return "", false, errors.New("goes on in the next line: write it in one")
			case quote == '"' && strings.IndexByte("$`\"\\", text[i]) < 0:
				b.WriteByte('\\')
			}
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	if quote != 0 {
		return "", false, errors.New("a quote is not closed")
	}
	return b.String(), false, nil
}

// expands reports whether a $ before the character is an expansion.
func expands(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("{($?!#*@-", c) >= 0
}

var errSecond = errors.New("another variable OS_ follows on the line: write each on a line of its own")

// afterWord allows a comment and another command after the value.
func afterWord(rest string) error {
	rest = strings.TrimLeft(rest, " \t")
	switch {
	case rest != "" && rest[0] == ';' && hidesAssignment(rest):
		return errSecond
	case rest == "" || rest[0] == '#' || rest[0] == ';':
		return nil
	}
	return errors.New("something follows the value: put the value into quotes")
}

// parseRCFile parses the file, and the variables with a key of their own for values that only a shell can determine. It ignores unknown
// variables, since the file is for many clients.
func parseRCFile(file string, files Files) (settings, error) {
	all, err := readRCFile(file, string(files[file]))
	if err != nil {
		return nil, err
	}
	merged := variablesOf(files)
	errs := []error{checkKeys(merged)}
	for _, a := range all {
		i := slices.IndexFunc(merged, func(b assignment) bool { return b.variable == a.variable })
		switch name, known := openrcNames[a.variable]; {
		case !known || i >= 0 && a.open:
		case i >= 0 && merged[i].value != a.value:
			errs = append(errs, fmt.Errorf("%s: the key %s of the Secret says something else; keep one of them", a.where, a.variable))
		case i >= 0:
		case a.open && name != "":
			errs = append(errs, fmt.Errorf("%s: the shell would ask for it, or take it from elsewhere: put it into the Secret as well, under the key %s", a.where, a.variable))
		default:
			merged = append(merged, a)
		}
	}
	if err := join(errs); err != nil {
		return nil, err
	}
	return settingsOf(merged)
}

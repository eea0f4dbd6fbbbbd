package contract

import "strings"

// MaxLocation is the longest location in bytes.
const MaxLocation = 256

// locationPrefix begins the line of a location. No message for people begins so.
const locationPrefix = "@location "

// LocationLine is the line of TerminationFile that names where an attempt works, such as a region and project of a cloud. The attempt
// writes it before it makes anything there. ok is false for a location that is empty, is longer than MaxLocation, or has other
// characters than printable ASCII without spaces.
func LocationLine(location string) (line string, ok bool) {
	visible := func(r rune) bool { return r > ' ' && r <= '~' }
	if location == "" || len(location) > MaxLocation || strings.ContainsFunc(location, func(r rune) bool { return !visible(r) }) {
		return "", false
	}
	return locationPrefix + location + "\n", true
}

// CutLocation separates the first LocationLine of a termination message from the rest, which is for people. location is empty where
// there is none.
func CutLocation(message string) (location, rest string) {
	for line := range strings.Lines(message) {
		value, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), locationPrefix)
		if _, valid := LocationLine(value); found && valid && location == "" {
			location = value
		} else {
			rest += line
		}
	}
	return location, rest
}

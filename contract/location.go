package contract

import "strings"

// MaxLocation bounds in bytes what an attempt may say of where it works.
const MaxLocation = 256

// locationPrefix begins the line of a location. It stands in no sentence.
const locationPrefix = "@location "

// LocationLine is the line of TerminationFile by which an attempt says where it works, before it makes anything there. ok is
// false for a location that is empty, longer than MaxLocation, or holds other characters than printable ASCII without spaces.
func LocationLine(location string) (line string, ok bool) {
	visible := func(r rune) bool { return r > ' ' && r <= '~' }
	if location == "" || len(location) > MaxLocation || strings.ContainsFunc(location, func(r rune) bool { return !visible(r) }) {
		return "", false
	}
	return locationPrefix + location + "\n", true
}

// CutLocation separates the first line of a termination message that is a LocationLine from the rest, which is for people. location
// is empty where there is none.
func CutLocation(message string) (location, rest string) {
	for line := range strings.Lines(message) {
		said, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), locationPrefix)
		if _, valid := LocationLine(said); is && valid && location == "" {
			location = said
		} else {
			rest += line
		}
	}
	return location, rest
}

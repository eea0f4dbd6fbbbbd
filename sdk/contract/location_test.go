package contract

import (
	"strings"
	"testing"
)

func TestCutLocation(t *testing.T) {
	long := strings.Repeat("x", MaxLocation)
	for message, want := range map[string][2]string{
		"":                                   {},
		"no space left":                      {"", "no space left"},
		"@location project=a\n":              {"project=a", ""},
		"@location project=a":                {"project=a", ""},
		"@location a\nno space\nleft":        {"a", "no space\nleft"},
		"no space\n@location a\nleft":        {"a", "no space\nleft"},
		"@location a\n@location b\nno space": {"a", "@location b\nno space"},
		"@location \nno space":               {"", "@location \nno space"},
		"@location a b\nno space":            {"", "@location a b\nno space"},
		"@location \u00e4\nno space":         {"", "@location \u00e4\nno space"},
		"see @location a":                    {"", "see @location a"},
		"@location " + long + "\nno space":   {long, "no space"},
		"@location " + long + "x" + "\nno":   {"", "@location " + long + "x" + "\nno"},
	} {
		if location, rest := CutLocation(message); location != want[0] || rest != want[1] {
			t.Errorf("CutLocation(%.40q) = %.40q, %.40q; want %.40q, %.40q", message, location, rest, want[0], want[1])
		}
	}
}

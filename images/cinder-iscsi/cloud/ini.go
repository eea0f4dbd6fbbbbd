package cloud

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// iniNames are the keys of [Global] besides the names of the settings. Those with an empty name are for OpenStack's cloud provider only, and
// ignored.
var iniNames = map[string]string{
	"project-id": projectID, "project-name": projectName,
	"project-domain-id": projDomainID, "project-domain-name": projDomain,
	"endpoint-type": iface, "interface": iface,
	"endpoint":    endpoint,
	"region-name": region,
	"use-clouds":  "", "clouds-file": "", "cloud": "",
	"secret-name": "", "secret-namespace": "", "kubeconfig-path": "", "end-user-domain": "",
}

var iniSettings = []string{
	authURL, endpoint, username, userID, password, projectID, projectName, userDomainID, userDomain, projDomainID, projDomain,
	domainID, domainName, trustID, trusteeID, trusteePass, appCredID, appCredName, appCredSecret, token, region, iface,
	caFile, certFile, keyFile, insecure,
}

// blank has the characters that are trimmed from a value. Other white space of Unicode is part of the value.
const blank = " \t\r"

// parseINI reads the sections Global and Cinder, and ignores those of other services. The format is that of git's configuration: names in any
// case, and quotes around values with ; or #.
func parseINI(text string) (settings, error) {
	s := settings{}
	var errs []error
	section := ""
	for i, line := range strings.Split(text, "\n") {
		at := fmt.Sprintf("%s line %d", cloudConf, i+1)
		line = strings.Trim(strings.TrimPrefix(line, "\ufeff"), blank)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case line[0] == '[':
			var err error
			if section, err = sectionOf(line); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", at, err))
			}
			continue
		case section == "":
			errs = append(errs, fmt.Errorf("%s: comes before the first section; begin the file with [Global]", at))
			continue
		}
		if section != "global" && section != "cinder" {
			continue
		}
		if err := s.setLine(section, line, at); err != nil {
			errs = append(errs, err)
		}
	}
	return s, join(errs)
}

func sectionOf(line string) (string, error) {
	end := strings.IndexByte(line, ']')
	if end < 0 {
		return "", fmt.Errorf("the section has no ]")
	}
	name := strings.ToLower(strings.TrimSpace(line[1:end]))
	if kind, sub, found := strings.Cut(name, " "); found && kind == "global" {
		return kind, fmt.Errorf("[Global %s]: one file is for one cloud; name the section [Global] and use a Secret for each", strings.TrimSpace(sub))
	}
	return name, nil
}

func (s settings) setLine(section, line, at string) error {
	key, value, found := strings.Cut(line, "=")
	key = strings.ToLower(strings.TrimSpace(key))
	where := at + ": " + key
	if !found {
		// The text may be a password that went into the next line.
		return fmt.Errorf("%s: has no =; write key = value", at)
	}
	name, err := iniName(section, key)
	if errors.Is(err, errUnknownKey) {
		s.warn(fmt.Sprintf("%s: %q %s", at, printableKey(key), err))
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	value, err = iniValue(value)
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if name == "" {
		if on, _ := (settings{key: {value: value}}).boolean(key); key == "use-clouds" && on {
			return fmt.Errorf("%s: is not supported; put %s into the Secret instead of %s", where, cloudsYAML, cloudConf)
		}
		return nil
	}
	if value == "" {
		return nil
	}
	return s.set(name, value, where)
}

func iniName(section, key string) (string, error) {
	name, synonym := iniNames[key]
	if synonym {
		if key == "endpoint" && section != "cinder" {
			return "", fmt.Errorf("endpoint: belongs into [Cinder]; in [Global] it is called %s", endpoint)
		}
		return name, nil
	}
	if slices.Contains(iniSettings, key) {
		return key, nil
	}
	return "", errUnknownKey
}

// errUnknownKey is for a key that may be for another program, or a mistake.
var errUnknownKey = errors.New("is not known, and ignored")

// printableKey shortens text that cannot be a key, since it may be part of a secret.
func printableKey(key string) string {
	if len(key) > 32 || strings.ContainsFunc(key, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' && r != '_' }) {
		return "..."
	}
	return key
}

// iniValue is the value up to a comment, with quotes and \", \\, \n and \t in them resolved.
func iniValue(raw string) (string, error) {
	var out strings.Builder
	quoted, kept := false, 0
	raw = strings.Trim(raw, blank)
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case c == '"':
			quoted = !quoted
			kept = out.Len()
			continue
		case c == '\\' && i+1 < len(raw):
			i++
			escaped, known := map[byte]byte{'"': '"', '\\': '\\', 'n': '\n', 't': '\t'}[raw[i]]
			if !known {
				return "", fmt.Errorf(`a \ stands before ", \, n or t; write \\ for itself`)
			}
			c = escaped
		case c == '\\':
			return "", fmt.Errorf(`ends with \; values are on one line`)
		case !quoted && (c == ';' || c == '#') && i > 0 && !strings.ContainsRune("\" \t", rune(raw[i-1])):
			return "", errors.New("has a # or ; inside, which begins a comment; put the value into quotes")
		case !quoted && (c == ';' || c == '#'):
			return out.String()[:kept], nil
		}
		out.WriteByte(c)
		if quoted || c != ' ' && c != '\t' {
			kept = out.Len()
		}
	}
	if quoted {
		return "", fmt.Errorf("a quote is not closed")
	}
	return out.String()[:kept], nil
}

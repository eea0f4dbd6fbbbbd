package cloud

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The names of the settings, which are those of the INI file.
const (
	authURL       = "auth-url"
	endpoint      = "cinder-endpoint"
	noAuth        = "no-auth"
	username      = "username"
	userID        = "user-id"
	password      = "password"
	projectID     = "tenant-id"
	projectName   = "tenant-name"
	userDomainID  = "user-domain-id"
	userDomain    = "user-domain-name"
	projDomainID  = "tenant-domain-id"
	projDomain    = "tenant-domain-name"
	domainID      = "domain-id"
	domainName    = "domain-name"
	trustID       = "trust-id"
	trusteeID     = "trustee-id"
	trusteePass   = "trustee-password"
	appCredID     = "application-credential-id"
	appCredName   = "application-credential-name"
	appCredSecret = "application-credential-secret"
	token         = "token"
	region        = "region"
	iface         = "os-endpoint-type"
	caFile        = "ca-file"
	certFile      = "cert-file"
	keyFile       = "key-file"
	insecure      = "tls-insecure"
)

// secretSettings are the settings whose values are never shown.
var secretSettings = []string{password, trusteePass, appCredSecret, token}

// setting is a value with its position, for errors.
type setting struct{ value, where string }

// settings have their names in the INI file as keys, for all formats.
type settings map[string]setting

func (s settings) get(name string) string { return s[name].value }

// name is the position of a setting, or its name in the INI file if it is missing.
func (s settings) name(name string) string {
	if where := s[name].where; where != "" {
		return where
	}
	return name
}

// set refuses a second value of a setting, such as tenant-id beside project-id.
func (s settings) set(name, value, where string) error {
	if before, twice := s[name]; twice && before.value != value {
		return fmt.Errorf("%s: %s says something else; keep one of them", where, before.where)
	}
	s[name] = setting{value, where}
	return nil
}

// warnings is the setting that has the warnings about the text, one a line. It has no name that a file can give.
const warnings = ""

func (s settings) warn(text string) {
	s[warnings] = setting{value: strings.TrimLeft(s.get(warnings)+"\n"+text, "\n")}
}

// boolean parses a boolean setting. It is false if the setting is missing.
func (s settings) boolean(name string) (bool, error) {
	switch strings.ToLower(s.get(name)) {
	case "", "false", "no", "0", "off":
		return false, nil
	case "true", "yes", "1", "on":
		return true, nil
	}
	return false, fmt.Errorf("%s: %q is neither true nor false", s.name(name), s.get(name))
}

// Files are the content of the mounted Secret, by key.
type Files map[string][]byte

// Names of the files that Parse looks for.
const (
	cloudConf  = "cloud.conf"
	cloudsYAML = "clouds.yaml"
	secureYAML = "secure.yaml"
	proxyFile  = "proxy"
	openrc     = "OS_"
)

// Parse parses the files. cloud is the name in clouds.yaml. It may be empty if there is only one. The error has every fault and no secret.
func Parse(files Files, cloud string) (*Config, error) {
	s, err := readSettings(files, cloud)
	if err != nil {
		return nil, err
	}
	return configOf(s, files)
}

func readSettings(files Files, cloud string) (settings, error) {
	names := slices.Sorted(maps.Keys(files))
	_, ini := files[cloudConf]
	_, yaml := files[cloudsYAML]
	env := slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, openrc) })
	rc := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isRCFile(name) })
	switch {
	case ini && !yaml && !env && len(rc) == 0:
		return parseINI(string(files[cloudConf]))
	case yaml && !ini && !env && len(rc) == 0:
		return parseClouds(files[cloudsYAML], files[secureYAML], cloud)
	case len(rc) == 1 && !ini && !yaml:
		return parseRCFile(rc[0], files)
	case env && !ini && !yaml && len(rc) == 0:
		return parseOpenrc(files)
	case !ini && !yaml && !env && len(rc) == 0:
		return nil, fmt.Errorf("found none of %s, %s, openrc and OS_AUTH_URL, but %s; put one of them into the Secret", cloudConf, cloudsYAML, joinNames(names))
	}
	return nil, fmt.Errorf("found more than one of %s, %s, openrc and OS_*: %s; keep one of them in the Secret", cloudConf, cloudsYAML, joinNames(names))
}

func joinNames(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

// join joins errors in one line.
func join(errs []error) error {
	var texts []string
	for _, err := range errs {
		if err != nil {
			texts = append(texts, err.Error())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return errors.New(strings.Join(texts, "; "))
}

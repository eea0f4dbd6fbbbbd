package cloud

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// authNames are the keys of a cloud's "auth". Those with an empty name are for other clients, and ignored.
var authNames = map[string]string{
	"auth_url": authURL, "username": username, "user_id": userID, "password": password,
	"project_id": projectID, "project_name": projectName, "tenant_id": projectID, "tenant_name": projectName,
	"user_domain_id": userDomainID, "user_domain_name": userDomain,
	"project_domain_id": projDomainID, "project_domain_name": projDomain,
	"domain_id": domainID, "domain_name": domainName, "trust_id": trustID, "token": token,
	"application_credential_id": appCredID, "application_credential_name": appCredName,
	"application_credential_secret": appCredSecret, "endpoint": endpoint,
	"default_domain": "", "default_domain_id": "", "default_domain_name": "", "system_scope": "",
}

// cloudNames are the keys of a cloud besides "auth". Keys for other services are ignored.
var cloudNames = map[string]string{
	"region_name": region, "interface": iface, "endpoint_type": iface,
	"cacert": caFile, "cert": certFile, "key": keyFile,
	"block_storage_endpoint_override": endpoint, "volume_endpoint_override": endpoint, "volumev3_endpoint_override": endpoint,
}

// parseClouds reads a cloud, merged with that of secure.yaml. gophercloud's reader is not used: it ignores misspelled
// keys, takes an unknown interface for the public one, opens certificates as files, and reads the environment.
func parseClouds(public, secure []byte, wanted string) (settings, error) {
	shown, err := readClouds(public, cloudsYAML)
	if err != nil {
		return nil, err
	}
	hidden, err := readClouds(secure, secureYAML)
	if err != nil {
		return nil, err
	}
	name, err := choose(shown, wanted)
	if err != nil {
		return nil, err
	}
	below, err := check(shown[name], cloudsYAML+" "+name)
	above, aboveErr := check(hidden[name], secureYAML+" "+name)
	if err := join([]error{err, aboveErr}); err != nil {
		return nil, err
	}
	maps.Copy(below, above)
	return below, nil
}

// readClouds has its own errors, since those of the parser quote the text, which has secrets.
func readClouds(data []byte, file string) (map[string]map[string]any, error) {
	var parsed struct {
		Clouds map[string]map[string]any `json:"clouds"`
	}
	if err := yaml.Unmarshal(data, &parsed); err != nil {
		return nil, fmt.Errorf("%s: is not YAML with a map of clouds, each of them a map", file)
	}
	return parsed.Clouds, nil
}

func choose(clouds map[string]map[string]any, wanted string) (string, error) {
	names := slices.Sorted(maps.Keys(clouds))
	switch {
	case len(names) == 0:
		return "", fmt.Errorf("%s: has no clouds", cloudsYAML)
	case wanted == "" && len(names) == 1 && clouds[names[0]] != nil:
		return names[0], nil
	case wanted == "" && len(names) > 1:
		return "", fmt.Errorf("%s: has the clouds %s; name one in the property cloud", cloudsYAML, strings.Join(names, ", "))
	case clouds[wanted] == nil:
		return "", fmt.Errorf("%s: has no cloud %q but %s; correct the property cloud", cloudsYAML, wanted, strings.Join(names, ", "))
	}
	return wanted, nil
}

// check reads a cloud of one file.
func check(cloud map[string]any, at string) (settings, error) {
	s := settings{}
	var errs []error
	auth, isMap := cloud["auth"].(map[string]any)
	if cloud["auth"] != nil && !isMap {
		errs = append(errs, fmt.Errorf("%s: auth: must be a map", at))
	}
	for _, key := range slices.Sorted(maps.Keys(auth)) {
		where := at + ": auth." + printableKey(key)
		if name, known := authNames[key]; known {
			errs = append(errs, s.setAny(name, auth[key], where))
		} else {
			errs = append(errs, errors.New(where+": is not known"))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(cloud)) {
		errs = append(errs, s.setCloud(key, cloud[key], at+": "+printableKey(key)))
	}
	return s, join(errs)
}

func (s settings) setCloud(key string, value any, where string) error {
	if name, known := cloudNames[key]; known {
		return s.setAny(name, value, where)
	}
	text := fmt.Sprint(value)
	switch key {
	case "auth_type":
		return s.setAuthType(text, where)
	case "identity_api_version":
		return checkIdentityVersion(text, where)
	case "insecure":
		return s.setAny(insecure, value, where)
	case "verify":
		// The opposite of insecure, or as openstacksdk has it the name of a CA file.
		if verify, isBool := value.(bool); isBool {
			return s.set(insecure, fmt.Sprint(!verify), where)
		}
		return fmt.Errorf("%s: must be true or false; name the CA's certificate in cacert", where)
	case "profile", "cloud", "vendor":
		return fmt.Errorf("%s: vendor profiles are not supported; write auth_url and the rest into the cloud", where)
	case "regions":
		return s.setRegion(value, where)
	}
	return nil
}

// setRegion sets the region if the list has only one.
func (s settings) setRegion(value any, where string) error {
	regions, _ := value.([]any)
	if len(regions) != 1 {
		return nil // region_name says which
	}
	if s.get(region) != "" {
		return nil
	}
	if named, isMap := regions[0].(map[string]any); isMap {
		return s.setAny(region, named["name"], where)
	}
	return s.setAny(region, regions[0], where)
}

func (s settings) setAny(name string, value any, where string) error {
	text, err := textOf(value, where)
	if err != nil || name == "" || text == "" {
		return err
	}
	return s.set(name, text, where)
}

func textOf(value any, where string) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case bool:
		return fmt.Sprint(v), nil
	}
	return "", errors.New(where + ": must be text; put numbers into quotes")
}

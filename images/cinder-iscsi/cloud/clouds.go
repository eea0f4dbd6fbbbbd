package cloud

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"sigs.k8s.io/yaml"
)

// authNames are the keys of a cloud's "auth" that gophercloud reads. It ignores all others, so only Keystone would notice a misspelled key.
var authNames = map[string]string{
	"auth_url": authURL, "username": username, "user_id": userID, "password": password,
	"project_id": projectID, "project_name": projectName,
	"user_domain_id": userDomainID, "user_domain_name": userDomain,
	"project_domain_id": projDomainID, "project_domain_name": projDomain,
	"domain_id": domainID, "domain_name": domainName, "trust_id": trustID, "token": token,
	"application_credential_id": appCredID, "application_credential_name": appCredName,
	"application_credential_secret": appCredSecret,
}

// otherAuthNames are the keys of "auth" that other clients read. Those with an empty name are ignored.
var otherAuthNames = map[string]string{
	"endpoint":       endpoint,
	"default_domain": "", "default_domain_id": "", "default_domain_name": "", "system_scope": "",
}

// oldAuthNames are former names of keys of "auth", by the names that gophercloud reads.
var oldAuthNames = map[string]string{"tenant_id": "project_id", "tenant_name": "project_name"}

// cloudNames are the keys of a cloud besides "auth". gophercloud does not read them here: it has no endpoints, takes an unknown interface for
// the public one, and opens certificates as files. Keys for other services are ignored.
var cloudNames = map[string]string{
	"region_name": region, "interface": iface, "endpoint_type": iface,
	"cacert": caFile, "cert": certFile, "key": keyFile,
	"block_storage_endpoint_override": endpoint, "volume_endpoint_override": endpoint, "volumev3_endpoint_override": endpoint,
}

// parseClouds reads a cloud, merged with that of secure.yaml.
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
	read, err := readAuth(below.auth, above.auth)
	if err != nil {
		// All that it could say of the text has been looked at.
		return nil, fmt.Errorf("%s %s: gophercloud does not read it; OS_CACERT, OS_CERT and OS_KEY have no place in the environment", cloudsYAML, name)
	}
	maps.Copy(below.settings, above.settings)
	maps.Copy(below.at, above.at)
	for key, value := range read {
		if value != "" {
			below.settings[authNames[key]] = setting{value, below.at[key]}
		}
	}
	return below.settings, nil
}

// readAuth has gophercloud read "auth" of a cloud, with the values of over in its place. The environment has no effect: the cloud is
// given, region and interface are not used, and a certificate file from the environment would be an error, since it does not exist.
func readAuth(auth, over map[string]string) (map[string]string, error) {
	const name = "cloud"
	options, _, _, err := clouds.Parse(clouds.WithCloudName(name),
		clouds.WithCloudsYAML(cloudOf(name, auth)), clouds.WithSecureYAML(cloudOf(name, over)))
	if err != nil {
		return nil, err
	}
	scope := options.Scope
	if scope == nil {
		scope = &gophercloud.AuthScope{}
	}
	return map[string]string{
		"auth_url": options.IdentityEndpoint, "token": options.TokenID, "trust_id": scope.TrustID,
		"username": options.Username, "user_id": options.UserID, "password": options.Password,
		"user_domain_id": options.DomainID, "user_domain_name": options.DomainName,
		"project_id": options.TenantID, "project_name": options.TenantName,
		"project_domain_id": scope.DomainID, "project_domain_name": scope.DomainName,
		"application_credential_id": options.ApplicationCredentialID, "application_credential_name": options.ApplicationCredentialName,
		"application_credential_secret": options.ApplicationCredentialSecret,
	}, nil
}

// cloudOf writes a cloud as YAML. The texts are in ASCII, since YAML has line ends that would be folded.
func cloudOf(name string, auth map[string]string) io.Reader {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(auth)) {
		fmt.Fprintf(&text, "%s: %+q, ", key, auth[key])
	}
	return strings.NewReader("clouds: {" + name + ": {auth: {" + text.String() + "}}}")
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

// checked is a validated cloud of one file: the keys of "auth" for gophercloud with their positions, and the settings that it does not read.
type checked struct {
	settings
	auth, at map[string]string
}

// check refuses what gophercloud would ignore, misread, or quote in an error.
func check(cloud map[string]any, at string) (checked, error) {
	c := checked{settings{}, map[string]string{}, map[string]string{}}
	var errs []error
	auth, isMap := cloud["auth"].(map[string]any)
	if cloud["auth"] != nil && !isMap {
		errs = append(errs, fmt.Errorf("%s: auth: must be a map", at))
	}
	for _, key := range slices.Sorted(maps.Keys(auth)) {
		errs = append(errs, c.setAuth(key, auth[key], at+": auth."+printableKey(key)))
	}
	for _, key := range slices.Sorted(maps.Keys(cloud)) {
		errs = append(errs, c.setCloud(key, cloud[key], at+": "+printableKey(key)))
	}
	return c, join(errs)
}

func (c checked) setAuth(key string, value any, where string) error {
	if name, known := otherAuthNames[key]; known {
		return c.setAny(name, value, where)
	}
	if today, old := oldAuthNames[key]; old {
		key = today
	}
	if _, known := authNames[key]; !known {
		return errors.New(where + ": is not known")
	}
	text, err := textOf(value, where)
	if err != nil || text == "" {
		return err
	}
	if before, twice := c.auth[key]; twice && before != text {
		return fmt.Errorf("%s: %s says something else; keep one of them", where, c.at[key])
	}
	c.auth[key], c.at[key] = text, where
	return nil
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

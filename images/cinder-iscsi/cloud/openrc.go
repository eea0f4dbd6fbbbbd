package cloud

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// openrcNames are the variables of all clients, old and new. Those with an empty name are not for a client of Cinder, and ignored.
var openrcNames = map[string]string{
	"OS_AUTH_URL": authURL, "OS_USERNAME": username, "OS_USER_ID": userID, "OS_USERID": userID, "OS_PASSWORD": password,
	"OS_TENANT_ID": projectID, "OS_TENANT_NAME": projectName, "OS_PROJECT_ID": projectID, "OS_PROJECT_NAME": projectName,
	"OS_USER_DOMAIN_ID": userDomainID, "OS_USER_DOMAIN_NAME": userDomain,
	"OS_PROJECT_DOMAIN_ID": projDomainID, "OS_PROJECT_DOMAIN_NAME": projDomain,
	"OS_TENANT_DOMAIN_ID": projDomainID, "OS_TENANT_DOMAIN_NAME": projDomain,
	"OS_DOMAIN_ID": domainID, "OS_DOMAIN_NAME": domainName,
	"OS_TRUST_ID": trustID, "OS_TOKEN": token, "OS_AUTH_TOKEN": token,
	"OS_APPLICATION_CREDENTIAL_ID": appCredID, "OS_APPLICATION_CREDENTIAL_NAME": appCredName,
	"OS_APPLICATION_CREDENTIAL_SECRET": appCredSecret,
	"OS_REGION_NAME":                   region, "OS_INTERFACE": iface, "OS_ENDPOINT_TYPE": iface,
	"OS_CACERT": caFile, "OS_CERT": certFile, "OS_KEY": keyFile, "OS_INSECURE": insecure,
	"OS_CINDER_ENDPOINT": endpoint, "OS_VOLUME_ENDPOINT_OVERRIDE": endpoint, "OS_VOLUMEV3_ENDPOINT_OVERRIDE": endpoint,
	"OS_BLOCK_STORAGE_ENDPOINT_OVERRIDE": endpoint, "OS_ENDPOINT": endpoint,
	"OS_AUTH_TYPE": "", "OS_IDENTITY_API_VERSION": "", "OS_CLOUD": "",
	"OS_VOLUME_API_VERSION": "", "OS_COMPUTE_API_VERSION": "", "OS_IMAGE_API_VERSION": "", "OS_NETWORK_API_VERSION": "",
	"OS_DEFAULT_DOMAIN": "", "OS_DEFAULT_DOMAIN_ID": "", "OS_DEFAULT_DOMAIN_NAME": "",
}

// variablesOf returns the files whose names begin with OS_. A trailing line end is not part of the value.
func variablesOf(files Files) []assignment {
	var all []assignment
	for _, variable := range slices.Sorted(maps.Keys(files)) {
		if strings.HasPrefix(variable, openrc) {
			all = append(all, assignment{variable: variable, where: variable, value: strings.TrimRight(string(files[variable]), "\r\n")})
		}
	}
	return all
}

// parseOpenrc parses variables that have a key each.
func parseOpenrc(files Files) (settings, error) {
	all := variablesOf(files)
	s, err := settingsOf(all)
	return s, join([]error{checkKeys(all), err})
}

// checkKeys refuses unknown variables, and values in quotes, which are mistakes.
func checkKeys(all []assignment) error {
	var errs []error
	for _, a := range all {
		if _, known := openrcNames[a.variable]; !known {
			errs = append(errs, fmt.Errorf("%s: is not known", a.variable))
		}
		if v := a.value; len(v) > 1 && v[0] == v[len(v)-1] && (v[0] == '"' || v[0] == '\'') {
			errs = append(errs, fmt.Errorf("%s: is in quotes, which --from-env-file keeps; create the Secret with --from-file=openrc=FILE", a.variable))
		}
	}
	return join(errs)
}

func settingsOf(all []assignment) (settings, error) {
	s := settings{}
	var errs []error
	for _, a := range all {
		switch name := openrcNames[a.variable]; {
		case a.value == "":
		case name == iface: // OS_INTERFACE is public where OS_ENDPOINT_TYPE is publicURL
			errs = append(errs, s.set(name, strings.TrimSuffix(a.value, "URL"), a.where))
		case name != "":
			errs = append(errs, s.set(name, a.value, a.where))
		case a.variable == "OS_CLOUD":
			errs = append(errs, fmt.Errorf("%s: needs %s in the Secret instead of the other variables; name the cloud in the property cloud", a.where, cloudsYAML))
		case a.variable == "OS_IDENTITY_API_VERSION":
			errs = append(errs, checkIdentityVersion(a.value, a.where))
		case a.variable == "OS_AUTH_TYPE":
			errs = append(errs, s.setAuthType(a.value, a.where))
		}
	}
	return s, join(errs)
}

// setAuthType refuses methods that Connect does not support. The other settings determine which of the supported ones is used.
func (s settings) setAuthType(value, where string) error {
	switch value {
	case "none", "noauth":
		return s.set(noAuth, "true", where)
	case "", "password", "v3password", "token", "v3token", "v3applicationcredential", "v3trust":
		return nil
	case "v2password", "v2token":
		return fmt.Errorf("%s: %q is of the Identity API v2.0, which Keystone has no more; use v3", where, value)
	}
	return fmt.Errorf("%s: %q is not supported; use password, v3applicationcredential, token or none", where, value)
}

func checkIdentityVersion(value, where string) error {
	if version := strings.TrimPrefix(value, "v"); version == "3" || strings.HasPrefix(version, "3.") {
		return nil
	}
	return fmt.Errorf("%s: %q is not supported; Keystone has v3 only", where, value)
}

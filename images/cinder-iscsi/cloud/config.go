package cloud

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// Config has what is needed to connect to a cloud. Its printed form shows no secret.
type Config struct {
	// AuthURL is the URL of Keystone, and ends with /v3/. It is empty if Cinder needs no authentication.
	AuthURL string
	// Endpoint is the URL of Cinder, and ends with /. It is empty for that of the catalog.
	Endpoint string
	// Region and Interface select the endpoint in the catalog. Region may be empty.
	Region, Interface string
	// User and Project are for a Cinder without authentication.
	User, Project string
	// Transport sends the requests; nil for one with its own connections.
	Transport http.RoundTripper
	// Warnings are about parts of the files that were ignored. They have no secret.
	Warnings []string
	auth     tokens.AuthOptions
	tls      *tls.Config
	proxy    func(*http.Request) (*url.URL, error)
	secrets  []string
}

// String shows the URLs and no credentials.
func (c Config) String() string { return "cloud " + c.AuthURL + " " + c.Endpoint }

// GoString is String.
func (c Config) GoString() string { return c.String() }

// Secrets returns the values that must not be shown.
func (c *Config) Secrets() []string { return c.secrets }

// defaultDomain is the ID of Keystone's first domain.
const defaultDomain = "default"

func configOf(s settings, files Files) (*Config, error) {
	c := &Config{Region: s.get(region)}
	if text := s.get(warnings); text != "" {
		c.Warnings = strings.Split(text, "\n")
	}
	for _, name := range secretSettings {
		if value := s.get(name); value != "" {
			c.secrets = append(c.secrets, value)
		}
	}
	var errs []error
	note := func(err error) { errs = append(errs, err) }
	var err error
	c.AuthURL, err = keystoneURL(s)
	note(err)
	c.Endpoint, err = cinderURL(s)
	note(err)
	c.Interface, err = interfaceOf(s)
	note(err)
	c.tls, err = tlsConfig(s, files)
	note(err)
	note(c.setProxy(files))
	without, err := s.boolean(noAuth)
	note(err)
	switch {
	case c.AuthURL != "" && !without:
		c.auth, err = authOf(s)
		note(err)
	case s.get(authURL) != "" && !without: // it is wrong, as is said already
	case c.Endpoint != "":
		c.AuthURL = ""
		note(c.setNoAuth(s))
	case s.get(endpoint) == "":
		note(fmt.Errorf("%s is missing; without Keystone, name Cinder itself in %s", s.name(authURL), s.name(endpoint)))
	}
	if err := join(errs); err != nil {
		return nil, err
	}
	return c, nil
}

// setProxy takes the proxy for Keystone and Cinder from the Secret, whose other parts know none. Without it, that of the
// environment is used. The URL may have a password, and no error shows it.
func (c *Config) setProxy(files Files) error {
	text := strings.TrimSpace(string(files[proxyFile]))
	if text == "" {
		c.proxy = http.ProxyFromEnvironment
		return nil
	}

	u, err := url.Parse(text)
	known := err == nil && u.Hostname() != "" && slices.Contains([]string{"http", "https", "socks5"}, u.Scheme)
	if !known {
		return fmt.Errorf("%s: must be the URL of a proxy, such as http://proxy.example.com:3128; the schemes are "+
			"http, https and socks5", proxyFile)
	}

	c.proxy = http.ProxyURL(u)
	if password, has := u.User.Password(); has {
		c.secrets = append(c.secrets, password, text)
	}

	return nil
}

// setNoAuth sets user and project for a Cinder without authentication, by every name that earlier releases used, and by their defaults.
func (c *Config) setNoAuth(s settings) error {
	c.User, c.Project = first(s, username, userID), first(s, projectID, projectName)
	if c.User == "" {
		c.User = "admin"
	}
	if c.Project == "" {
		c.Project = "admin"
	}
	for _, name := range []string{username, userID, projectID, projectName} {
		if strings.ContainsAny(s.get(name), ":/?#% ") {
			return fmt.Errorf("%s: %q has one of the characters :/?#%% and space, which do not fit into a token without authentication", s.name(name), s.get(name))
		}
	}
	return nil
}

func first(s settings, names ...string) string {
	for _, name := range names {
		if value := s.get(name); value != "" {
			return value
		}
	}
	return ""
}

func keystoneURL(s settings) (string, error) {
	u, err := s.url(authURL)
	if u == nil || err != nil {
		return "", err
	}
	base, version := path.Split(strings.TrimRight(u.Path, "/"))
	switch {
	case strings.HasPrefix(version, "v2"):
		return "", fmt.Errorf("%s: %s is of the Identity API v2.0, which Keystone has no more; write %s", s.name(authURL), u, with(u, path.Join("/", base, "v3")))
	case version == "v3":
		return with(u, path.Join("/", base, "v3")) + "/", nil
	}
	return with(u, path.Join("/", u.Path, "v3")) + "/", nil
}

func cinderURL(s settings) (string, error) {
	u, err := s.url(endpoint)
	if u == nil || err != nil {
		return "", err
	}
	for i, element := range strings.Split(u.Path, "/") {
		switch element {
		case "v1", "v2":
			elements := strings.Split(u.Path, "/")
			elements[i] = "v3"
			return "", fmt.Errorf("%s: %s is of the Block Storage API %s, which Cinder has had no more since 19.0.0 (Xena); write %s",
				s.name(endpoint), u, element, with(u, strings.Join(elements, "/")))
		case "v3":
			return with(u, strings.TrimRight(u.Path, "/")) + "/", nil
		}
	}
	return with(u, path.Join("/", u.Path, "v3")) + "/", nil
}

// url parses a URL, and is nil if the setting is missing. Errors do not show the text, which may have a password.
func (s settings) url(name string) (*url.URL, error) {
	text := s.get(name)
	if text == "" {
		return nil, nil
	}
	// Keystone's catalogs and older clients write the project as a template.
	u, err := url.Parse(strings.NewReplacer("%(project_id)s", projectTemplate, "%(tenant_id)s", projectTemplate,
		"$(project_id)s", projectTemplate, "$(tenant_id)s", projectTemplate).Replace(text))
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("%s: is not a URL like https://cloud.example.com:5000/v3", s.name(name))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s: a user name, a query or a fragment has no place in it", s.name(name))
	}
	return u, nil
}

// projectTemplate is the placeholder of the project's ID in an endpoint.
const projectTemplate = "{project}"

func with(u *url.URL, path string) string { return u.Scheme + "://" + u.Host + path }

func interfaceOf(s settings) (string, error) {
	switch value := strings.TrimSuffix(strings.ToLower(s.get(iface)), "url"); value {
	case "":
		return "public", nil
	case "public", "internal", "admin":
		return value, nil
	}
	return "", fmt.Errorf("%s: %q is none of public, internal and admin", s.name(iface), s.get(iface))
}

// authOf chooses the method by the settings: a token, an application credential, or a password. A trust is a scope of a password.
func authOf(s settings) (tokens.AuthOptions, error) {
	o := tokens.AuthOptions{AllowReauth: true}
	switch {
	case s.get(token) != "":
		o.TokenID = s.get(token)
		o.Scope = scopeOf(s)
		o.AllowReauth = o.Scope != (tokens.Scope{})
		return o, nil
	case s.get(appCredSecret) != "" || s.get(appCredID) != "" || s.get(appCredName) != "":
		return o, setAppCred(&o, s)
	}
	o.Username, o.UserID, o.Password = s.get(username), s.get(userID), s.get(password)
	if trustee := s.get(trusteeID); trustee != "" {
		o.Username, o.UserID = "", trustee
	}
	if trustee := s.get(trusteePass); trustee != "" {
		o.Password = trustee
	}
	switch {
	case o.Username == "" && o.UserID == "":
		return o, fmt.Errorf("%s is missing; give it, or an application credential or a token", s.name(username))
	case o.Password == "":
		return o, fmt.Errorf("%s is missing", s.name(password))
	}
	if o.UserID != "" {
		o.Username = ""
	} else {
		setUserDomain(&o, s)
	}
	o.Scope = scopeOf(s) // without one Keystone takes the user's own project, if there is one
	return o, nil
}

func setAppCred(o *tokens.AuthOptions, s settings) error {
	o.ApplicationCredentialID, o.ApplicationCredentialName = s.get(appCredID), s.get(appCredName)
	o.ApplicationCredentialSecret = s.get(appCredSecret)
	switch {
	case o.ApplicationCredentialSecret == "":
		return fmt.Errorf("%s is missing", s.name(appCredSecret))
	case o.ApplicationCredentialID != "":
		o.ApplicationCredentialName = ""
		return nil
	case o.ApplicationCredentialName == "":
		return fmt.Errorf("%s is missing", s.name(appCredID))
	}
	// The name of an application credential is unique for its user only.
	o.UserID, o.Username = s.get(userID), s.get(username)
	if o.UserID == "" && o.Username == "" {
		return fmt.Errorf("%s needs %s as well, or use %s", s.name(appCredName), s.name(username), s.name(appCredID))
	}
	if o.UserID != "" {
		o.Username = ""
	} else {
		setUserDomain(o, s)
	}
	return nil
}

func setUserDomain(o *tokens.AuthOptions, s settings) {
	o.DomainID, o.DomainName = first(s, userDomainID, domainID), first(s, userDomain, domainName)
	switch {
	case o.DomainID != "":
		o.DomainName = ""
	case o.DomainName == "":
		o.DomainID = defaultDomain
	}
}

func scopeOf(s settings) tokens.Scope {
	switch {
	case s.get(trustID) != "":
		return tokens.Scope{TrustID: s.get(trustID)}
	case s.get(projectID) != "":
		return tokens.Scope{ProjectID: s.get(projectID)}
	case s.get(projectName) == "":
		return tokens.Scope{}
	}
	scope := tokens.Scope{
		ProjectName: s.get(projectName),
		DomainID:    first(s, projDomainID, domainID, userDomainID),
		DomainName:  first(s, projDomain, domainName, userDomain),
	}
	switch {
	case scope.DomainID != "":
		scope.DomainName = ""
	case scope.DomainName == "":
		scope.DomainID = defaultDomain
	}
	return scope
}

// Keys of the Secret for certificates that the settings do not name.
const (
	defaultCA   = "ca.crt"
	defaultCert = "tls.crt"
	defaultKey  = "tls.key"
)

func tlsConfig(s settings, files Files) (*tls.Config, error) {
	ca, caErr := readPEM(s, files, caFile, defaultCA)
	cert, certErr := readPEM(s, files, certFile, defaultCert)
	key, keyErr := readPEM(s, files, keyFile, defaultKey)
	skip, skipErr := s.boolean(insecure)
	if err := join([]error{caErr, certErr, keyErr, skipErr}); err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: skip}
	if ca != nil {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(ca) {
			return nil, fmt.Errorf("%s: has no certificate in PEM", s.name(caFile))
		}
		config.RootCAs = pool
	}
	switch {
	case cert == nil && key == nil:
		return config, nil
	case cert == nil || key == nil:
		return nil, fmt.Errorf("%s and %s are given both or not at all", s.name(certFile), s.name(keyFile))
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s are not a certificate and its key in PEM", s.name(certFile), s.name(keyFile))
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// readPEM finds a file in the Secret by the last part of its name.
func readPEM(s settings, files Files, name, byDefault string) ([]byte, error) {
	file := s.get(name)
	if file == "" {
		return files[byDefault], nil
	}
	data, found := files[path.Base(file)]
	if !found {
		return nil, fmt.Errorf("%s: %s is not in the Secret; put it there under the key %s", s.name(name), file, path.Base(file))
	}
	return data, nil
}

var errNoCatalog = errors.New("keystone's answer has no catalog")

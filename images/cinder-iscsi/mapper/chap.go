package mapper

import (
	"fmt"
	"strings"
)

// The keys by which the kubelet finds credentials in a Secret of type kubernetes.io/iscsi-chap.
const (
	sessionUser       = "node.session.auth.username"
	sessionPassword   = "node.session.auth.password"
	discoveryUser     = "discovery.sendtargets.auth.username"
	discoveryPassword = "discovery.sendtargets.auth.password"
)

// chapData are the credentials in a connection. Cinder knows one-way CHAP only.
type chapData struct {
	Method            text `json:"auth_method"`
	User              text `json:"auth_username"`
	Password          text `json:"auth_password"`
	DiscoveryMethod   text `json:"discovery_auth_method"`
	DiscoveryUser     text `json:"discovery_auth_username"`
	DiscoveryPassword text `json:"discovery_auth_password"`
}

// secret is nil without CHAP.
func (d chapData) secret() (Secret, error) {
	secret := Secret{}
	for _, pair := range []struct {
		field                              string
		method, user, password             text
		userKey, passwordKey, passwordName string
	}{
		{"auth_method", d.Method, d.User, d.Password, sessionUser, sessionPassword, "auth_password"},
		{"discovery_auth_method", d.DiscoveryMethod, d.DiscoveryUser, d.DiscoveryPassword,
			discoveryUser, discoveryPassword, "discovery_auth_password"},
	} {
		switch {
		case pair.method == "" || strings.EqualFold(string(pair.method), "none"):
			continue
		case !strings.EqualFold(string(pair.method), "CHAP"):
			return nil, fmt.Errorf("%s is %q; only CHAP is known", pair.field, pair.method)
		case pair.user == "" || pair.password == "":
			return nil, fmt.Errorf("%s is CHAP, but its user name or %s is missing", pair.field, pair.passwordName)
		}
		secret[pair.userKey], secret[pair.passwordKey] = string(pair.user), string(pair.password)
	}
	if len(secret) == 0 {
		return nil, nil
	}
	return secret, nil
}

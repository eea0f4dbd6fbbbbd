package mapper

import (
	"fmt"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
)

// The keys of a Secret of type kubernetes.io/iscsi-chap, by which the kubelet finds the credentials.
const (
	SessionUser       = "node.session.auth.username"
	SessionPassword   = "node.session.auth.password"
	discoveryUser     = "discovery.sendtargets.auth.username"
	discoveryPassword = "discovery.sendtargets.auth.password"
)

// chapData are the credentials in a connection. Cinder supports one-way CHAP only.
type chapData struct {
	Method            text `json:"auth_method"`
	User              text `json:"auth_username"`
	Password          text `json:"auth_password"`
	DiscoveryMethod   text `json:"discovery_auth_method"`
	DiscoveryUser     text `json:"discovery_auth_username"`
	DiscoveryPassword text `json:"discovery_auth_password"`
}

// secret is the content of the Secret, nil without CHAP.
func (d chapData) secret() (Secret, error) {
	secret := Secret{}
	for _, pair := range []struct {
		prefix                 string
		method, user, password text
		userKey, passwordKey   string
	}{
		{"auth_", d.Method, d.User, d.Password, SessionUser, SessionPassword},
		{"discovery_auth_", d.DiscoveryMethod, d.DiscoveryUser, d.DiscoveryPassword, discoveryUser, discoveryPassword},
	} {
		switch {
		case pair.method == "" || strings.EqualFold(string(pair.method), "none"):
			continue
		case !strings.EqualFold(string(pair.method), "CHAP"):
			return nil, fmt.Errorf("%smethod is %s; only CHAP is known", pair.prefix, form.Quote(string(pair.method)))
		case pair.user == "" || pair.password == "":
			return nil, fmt.Errorf("%[1]smethod is CHAP, but %[1]susername or %[1]spassword is missing", pair.prefix)
		}
		if err := form.Credential(pair.prefix+"username", string(pair.user)); err != nil {
			return nil, err
		}
		if err := form.Credential(pair.prefix+"password", string(pair.password)); err != nil {
			return nil, err
		}
		secret[pair.userKey], secret[pair.passwordKey] = string(pair.user), string(pair.password)
	}
	if len(secret) == 0 {
		return nil, nil
	}
	return secret, nil
}

package cloud

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

func file(name, text string) Files { return Files{name: []byte(text)} }

func variables(pairs ...string) Files {
	files := Files{}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		files[name] = []byte(value + "\n")
	}
	return files
}

const keystone = "http://keystone-host:5000/v3/"

// password is as seeds and clients write it, scoped to a project by ID.
func passwordAuth() tokens.AuthOptions {
	return tokens.AuthOptions{Username: "admin", Password: "Passw0rd!", DomainID: "default", AllowReauth: true,
		Scope: tokens.Scope{ProjectID: "637b7373213d439d8119285244481456"}}
}

func TestParse(t *testing.T) {
	byName := passwordAuth()
	byName.DomainID, byName.DomainName = "", "Users"
	byName.Scope = tokens.Scope{ProjectName: "k8s", DomainName: "Projects"}
	byProjectID := passwordAuth()
	byProjectID.DomainID, byProjectID.DomainName = "", "Users"
	oneDomain := passwordAuth()
	oneDomain.DomainID, oneDomain.DomainName = "", "Users"
	oneDomain.Scope = tokens.Scope{ProjectName: "k8s", DomainName: "Users"}
	byUserID := passwordAuth()
	byUserID.Username, byUserID.UserID, byUserID.DomainID = "", "u-1", ""
	trust := passwordAuth()
	trust.Username, trust.UserID, trust.Password, trust.DomainID = "", "trustee-1", "Trust33!", ""
	trust.Scope = tokens.Scope{TrustID: "trust-1"}
	appCred := tokens.AuthOptions{ApplicationCredentialID: "ac-1", ApplicationCredentialSecret: "S3cret!!", AllowReauth: true}
	appCredByName := tokens.AuthOptions{ApplicationCredentialName: "k8s", ApplicationCredentialSecret: "S3cret!!", Username: "admin",
		DomainName: "Users", AllowReauth: true}
	token := tokens.AuthOptions{TokenID: "T0ken!!!"}
	scoped := tokens.AuthOptions{TokenID: "T0ken!!!", Scope: tokens.Scope{ProjectID: "p-1"}, AllowReauth: true}

	for _, c := range []struct {
		name  string
		files Files
		cloud string
		want  Config
	}{
		{"the seeds' keystone example, with v3", file(cloudConf, "# Example\n[Global]\nauth-url=http://keystone-host:5000/v3\nusername=admin\npassword=Passw0rd!\nregion=RegionOne\ntenant-id=637b7373213d439d8119285244481456\n"),
			"", Config{AuthURL: keystone, Region: "RegionOne", auth: passwordAuth()}},
		{"the seeds' noauth example, with v3", file(cloudConf, "[Global]\ncinder-endpoint=http://cinder-host:8776/v3\nusername=admin\ntenant-name=admin\n"),
			"", Config{Endpoint: "http://cinder-host:8776/v3/", User: "admin", Project: "admin"}},
		{"noauth as later releases had it", file(cloudConf, "[Cinder]\nendpoint = http://cinder-host:8776\n"),
			"", Config{Endpoint: "http://cinder-host:8776/v3/", User: "admin", Project: "admin"}},
		{"noauth with the project in the URL", file(cloudConf, "[Cinder]\nendpoint = http://cinder-host/volume/v3/11111111111111111111111111111111/\n"),
			"", Config{Endpoint: "http://cinder-host/volume/v3/11111111111111111111111111111111/", User: "admin", Project: "admin"}},
		{"quotes, comments, other sections, upper case", file(cloudConf, "\ufeff[LoadBalancer]\nx\n[GLOBAL]\r\nAuth-Url = http://keystone-host:5000 ; here\r\nUserName=\"admin\"\npassword = \"Passw0rd!\" # no\n; \ntenant-id=\"637b7373213d439d\"8119285244481456\nuse-clouds=false\n[BlockStorage]\nbs-version=v3\n"),
			"", Config{AuthURL: keystone, auth: passwordAuth()}},
		{"names and domains", file(cloudConf, "[Global]\nauth-url=http://keystone-host:5000/v3/\nusername=admin\npassword=Passw0rd!\ntenant-name=k8s\nuser-domain-name=Users\ntenant-domain-name=Projects\nos-endpoint-type=internalURL\n"),
			"", Config{AuthURL: keystone, Interface: "internal", auth: byName}},
		{"one domain for both", file(cloudConf, "[Global]\nauth-url=http://keystone-host:5000/v3\nuser-id=u-1\npassword=Passw0rd!\nproject-id=637b7373213d439d8119285244481456\n"),
			"", Config{AuthURL: keystone, auth: byUserID}},
		{"trust", file(cloudConf, "[Global]\nauth-url=http://keystone-host:5000/v3\ntrust-id=trust-1\ntrustee-id=trustee-1\ntrustee-password=Trust33!\n"),
			"", Config{AuthURL: keystone, auth: trust}},
		{"application credential", file(cloudConf, "[Global]\nauth-url=http://keystone-host:5000/v3\napplication-credential-id=ac-1\napplication-credential-secret=S3cret!!\n"),
			"", Config{AuthURL: keystone, auth: appCred}},
		{"application credential by name", file(cloudConf, "[Global]\nauth-url=http://keystone-host:5000/v3\napplication-credential-name=k8s\napplication-credential-secret=S3cret!!\nusername=admin\nuser-domain-name=Users\n"),
			"", Config{AuthURL: keystone, auth: appCredByName}},
		{"token", file(cloudConf, "[Global]\nauth-url=http://keystone-host:5000/v3\ntoken=T0ken!!!\n"), "", Config{AuthURL: keystone, auth: token}},
		{"token for another project", file(cloudConf, "[Global]\nauth-url=http://keystone-host:5000/v3\ntoken=T0ken!!!\ntenant-id=p-1\n"),
			"", Config{AuthURL: keystone, auth: scoped}},
		{"keystone below a path, endpoint override", file(cloudConf, "[Global]\nauth-url=https://cloud.example.com/identity\ncinder-endpoint=https://cinder.example.com/v3/%(project_id)s\ntoken=T0ken!!!\n"),
			"", Config{AuthURL: "https://cloud.example.com/identity/v3/", Endpoint: "https://cinder.example.com/v3/{project}/", auth: token}},
		{"the seeds' openrc", variables("OS_AUTH_URL=http://keystone-host:5000/v3", "OS_USERNAME=admin", "OS_PASSWORD=Passw0rd!", "OS_TENANT_ID=637b7373213d439d8119285244481456", "OS_REGION_NAME=RegionOne"),
			"", Config{AuthURL: keystone, Region: "RegionOne", auth: passwordAuth()}},
		{"the seeds' openrc without keystone", variables("OS_CINDER_ENDPOINT=http://cinder-host:8776/v3", "OS_USERNAME=admin", "OS_TENANT_NAME=kubernetes"),
			"", Config{Endpoint: "http://cinder-host:8776/v3/", User: "admin", Project: "kubernetes"}},
		{"a whole openrc of today", variables("OS_AUTH_URL=http://keystone-host:5000", "OS_USERNAME=admin", "OS_PASSWORD=Passw0rd!", "OS_PROJECT_NAME=k8s", "OS_USER_DOMAIN_NAME=Users",
			"OS_PROJECT_DOMAIN_NAME=Projects", "OS_INTERFACE=public", "OS_IDENTITY_API_VERSION=3", "OS_VOLUME_API_VERSION=3", "OS_AUTH_TYPE=password"),
			"", Config{AuthURL: keystone, auth: byName}},
		{"openrc, application credential", variables("OS_AUTH_TYPE=v3applicationcredential", "OS_AUTH_URL=http://keystone-host:5000/v3", "OS_APPLICATION_CREDENTIAL_ID=ac-1", "OS_APPLICATION_CREDENTIAL_SECRET=S3cret!!"),
			"", Config{AuthURL: keystone, auth: appCred}},
		{"clouds.yaml with one cloud", file(cloudsYAML, "clouds:\n  c:\n    auth: {auth_url: 'http://keystone-host:5000', username: admin, password: 'Passw0rd!', project_id: 637b7373213d439d8119285244481456}\n    regions: [RegionOne]\n    compute_api_version: 2\n"),
			"", Config{AuthURL: keystone, Region: "RegionOne", auth: passwordAuth()}},
		{"clouds.yaml with secure.yaml and several clouds", Files{
			cloudsYAML: []byte("clouds:\n  a: {auth: {auth_url: 'http://a'}}\n  b:\n    auth: {auth_url: 'http://keystone-host:5000/v3', application_credential_id: ac-1}\n    auth_type: v3applicationcredential\n    region_name: west\n    interface: admin\n    verify: true\n"),
			secureYAML: []byte("clouds:\n  a: {auth: {password: x}}\n  b: {auth: {application_credential_secret: 'S3cret!!'}}\n")},
			"b", Config{AuthURL: keystone, Region: "west", Interface: "admin", auth: appCred}},
		{"clouds.yaml with the keys of older clients", file(cloudsYAML, "clouds:\n  c:\n    auth: {auth_url: 'http://keystone-host:5000/v3', username: admin, password: 'Passw0rd!', tenant_name: k8s, user_domain_name: Users, project_domain_name: Projects}\n"),
			"", Config{AuthURL: keystone, auth: byName}},
		{"clouds.yaml, one domain for both", file(cloudsYAML, "clouds: {c: {auth: {auth_url: 'http://keystone-host:5000/v3', username: admin, password: 'Passw0rd!', project_name: k8s, domain_name: Users}}}"),
			"", Config{AuthURL: keystone, auth: oneDomain}},
		{"clouds.yaml, trust", file(cloudsYAML, "clouds: {c: {auth: {auth_url: 'http://keystone-host:5000/v3', user_id: trustee-1, password: 'Trust33!', trust_id: trust-1}}}"),
			"", Config{AuthURL: keystone, auth: trust}},
		{"clouds.yaml, token", file(cloudsYAML, "clouds: {c: {auth_type: token, auth: {auth_url: 'http://keystone-host:5000/v3', token: 'T0ken!!!', project_id: p-1}}}"),
			"", Config{AuthURL: keystone, auth: scoped}},
		{"secure.yaml over clouds.yaml", Files{
			cloudsYAML: []byte("clouds: {c: {auth: {auth_url: 'http://wrong', username: admin, password: wrong, project_id: 637b7373213d439d8119285244481456}, region_name: east}}"),
			secureYAML: []byte("clouds: {c: {auth: {auth_url: 'http://keystone-host:5000/v3', password: 'Passw0rd!'}, region_name: west}, d: {auth: {token: x}}}")},
			"", Config{AuthURL: keystone, Region: "west", auth: passwordAuth()}},
		{"the dashboard's file with the password beside it", Files{"k8s-openrc.sh": []byte(dashboard), "OS_PASSWORD": []byte("Passw0rd!\n")},
			"", Config{AuthURL: keystone, Region: "RegionOne", auth: byProjectID}},
		{"the dashboard's file for an application credential", file("app-cred-k8s-openrc.sh", "#!/usr/bin/env bash\n\nexport OS_AUTH_TYPE=v3applicationcredential\n"+
			"export OS_AUTH_URL=http://keystone-host:5000/v3\nexport OS_IDENTITY_API_VERSION=3\nexport OS_REGION_NAME=\"RegionOne\"\nexport OS_INTERFACE=public\n"+
			"export OS_APPLICATION_CREDENTIAL_ID=ac-1\nexport OS_APPLICATION_CREDENTIAL_SECRET=S3cret!!\n"),
			"", Config{AuthURL: keystone, Region: "RegionOne", auth: appCred}},
		{"an installer's file for administrators", file("openrc", "# managed\nfor key in $( set | awk '{FS=\"=\"}  /^OS_/ {print $1}' ); do unset $key ; done\r\n"+
			"export OS_PROJECT_DOMAIN_NAME='Projects'\r\n    export OS_USER_DOMAIN_NAME='Users' # here\r\nexport OS_PROJECT_NAME='k8s'\nexport OS_TENANT_NAME='k8s'\nexport OS_USERNAME=admin;\n"+
			"export OS_PASSWORD='wrong'\nexport OS_PASSWORD='Passw0rd!'\nexport OS_AUTH_URL=http://keystone-host:5000\nexport OS_INTERFACE='internal'\nexport OS_ENDPOINT_TYPE='internalURL'\n"+
			"export OS_MANILA_ENDPOINT_TYPE='internalURL'\nexport OS_AUTH_PLUGIN='password'\nexport PS1='[\\u@\\h \\W]\\$ '\n"),
			"", Config{AuthURL: keystone, Interface: "internal", auth: byName}},
		{"clouds.yaml without keystone", file(cloudsYAML, "clouds:\n  c: {auth_type: none, auth: {endpoint: 'http://cinder-host:8776/v3', project_id: abc}}\n"),
			"", Config{Endpoint: "http://cinder-host:8776/v3/", User: "admin", Project: "abc"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.files, c.cloud)
			if err != nil {
				t.Fatal(err)
			}
			if c.want.Interface == "" {
				c.want.Interface = "public"
			}
			if a, b := shown(*got), shown(c.want); a != b {
				t.Errorf("got\n%s\nwant\n%s", a, b)
			}
			for _, text := range []string{fmt.Sprint(got), fmt.Sprintf("%+v", got), fmt.Sprintf("%#v", got), fmt.Sprintf("%+v", *got)} {
				for _, secret := range got.Secrets() {
					if strings.Contains(text, secret) {
						t.Errorf("a secret was printed: %s", text)
					}
				}
			}
		})
	}
}

// A key that this provisioner does not know is another program's, or a mistake: it is told, and the rest is used. A user may have a
// project of their own, so that a log-in without one is tried.
func TestUnknownKeys(t *testing.T) {
	config, err := Parse(file(cloudConf, "[Global]\nauth-url=http://k/v3\nusername=a\npassword=Passw0rd!\ncolor=red\nPassw0rd!=x\n"), "")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{`cloud.conf line 5: "color" is not known, and ignored`, `cloud.conf line 6: "..." is not known, and ignored`}
	if !slices.Equal(config.Warnings, want) || config.auth.Scope != (tokens.Scope{}) {
		t.Errorf("warnings %q, scope %+v, want %q and none", config.Warnings, config.auth.Scope, want)
	}
}

// What gcfg, which reads this file for OpenStack's own cloud provider, makes of the same text.
func TestINIValues(t *testing.T) {
	for written, want := range map[string]string{
		`"a# " # c`: "a# ", `"a " ; c`: "a ", `a "b; " c`: "a b;  c", "\u00a0a\u2003": "\u00a0a\u2003", " a \t\r": "a", `"a\"b\\c\n\t"`: "a\"b\\c\n\t", `"a"b`: "ab",
	} {
		config, err := Parse(file(cloudConf, "[Global]\nauth-url=http://k/v3\nusername=a\ntenant-id=p\npassword="+written+"\n"), "")
		if err != nil {
			t.Errorf("%s: %v", written, err)
		} else if config.auth.Password != want {
			t.Errorf("%s: got %q, want %q", written, config.auth.Password, want)
		}
	}
}

func shown(c Config) string {
	return fmt.Sprintf("%q %q %q %q %q %q %#v", c.AuthURL, c.Endpoint, c.Region, c.Interface, c.User, c.Project, c.auth)
}

func TestParseErrors(t *testing.T) {
	ini := func(lines ...string) Files { return file(cloudConf, "[Global]\n"+strings.Join(lines, "\n")+"\n") }
	plus := func(files Files, more Files) Files { maps.Copy(files, more); return files }
	for _, c := range []struct {
		name  string
		files Files
		cloud string
		err   string
	}{
		{"nothing", Files{}, "", "found none of cloud.conf, clouds.yaml, openrc and OS_AUTH_URL, but nothing; put one of them into the Secret"},
		{"something else", file("config", ""), "", "found none of cloud.conf, clouds.yaml, openrc and OS_AUTH_URL, but config; put one of them into the Secret"},
		{"two", plus(ini(), variables("OS_USERNAME=x")), "", "found more than one of cloud.conf, clouds.yaml, openrc and OS_*: OS_USERNAME, cloud.conf; keep one of them in the Secret"},
		{"the seeds' keystone URL", ini("auth-url=http://keystone-host:5000/v2.0", "username=admin", "password=Passw0rd!", "tenant-name=k"), "",
			"cloud.conf line 2: auth-url: http://keystone-host:5000/v2.0 is of the Identity API v2.0, which Keystone has no more; write http://keystone-host:5000/v3"},
		{"the seeds' cinder URL", ini("cinder-endpoint=http://cinder-host:8776/v2"), "",
			"cloud.conf line 2: cinder-endpoint: http://cinder-host:8776/v2 is of the Block Storage API v2, which Cinder has had no more since 19.0.0 (Xena); write http://cinder-host:8776/v3"},
		{"no URL", ini("username=admin"), "", "auth-url is missing; without Keystone, name Cinder itself in cinder-endpoint"},
		{"bad URL", ini("auth-url=keystone:5000"), "", "cloud.conf line 2: auth-url: is not a URL like https://cloud.example.com:5000/v3"},
		{"URL with a password", ini("auth-url=http://me:Passw0rd!@keystone/v3", "token=T0ken!!!"), "", "cloud.conf line 2: auth-url: a user name, a query or a fragment has no place in it"},
		{"no user", ini("auth-url=http://k/v3", "password=Passw0rd!"), "", "username is missing; give it, or an application credential or a token"},
		{"no password", ini("auth-url=http://k/v3", "username=a", "tenant-id=b"), "", "password is missing"},
		{"no secret", ini("auth-url=http://k/v3", "application-credential-id=a"), "", "application-credential-secret is missing"},
		{"no user of the credential", ini("auth-url=http://k/v3", "application-credential-name=a", "application-credential-secret=S3cret!!"), "",
			"cloud.conf line 3: application-credential-name needs username as well, or use application-credential-id"},
		{"twice", ini("auth-url=http://k/v3", "tenant-id=a", "project-id=b", "token=T0ken!!!"), "", "cloud.conf line 4: project-id: cloud.conf line 3: tenant-id says something else; keep one of them"},
		{"a secret in the wrong place", ini("Passw0rd!"), "", "cloud.conf line 2: has no =; write key = value"},
		{"open quote", ini(`password="Passw0rd!`), "", "cloud.conf line 2: password: a quote is not closed"},
		{"a value that would be cut", ini("auth-url=http://k/v3", "password = Passw0rd!#more"), "", `cloud.conf line 3: password: has a # or ; inside, which begins a comment; put the value into quotes`},
		{"a value that would be cut at ;", ini("auth-url=http://k/v3", "password = Passw0rd!;more"), "", `cloud.conf line 3: password: has a # or ; inside, which begins a comment; put the value into quotes`},
		{"bad escape", ini(`password=Pass\w0rd!`), "", `cloud.conf line 2: password: a \ stands before ", \, n or t; write \\ for itself`},
		{"several clouds in one file", file(cloudConf, "[Global \"west\"]\nusername=a\n"), "", `cloud.conf line 1: [Global "west"]: one file is for one cloud; name the section [Global] and use a Secret for each`},
		{"no section", file(cloudConf, "username=a\n"), "", "cloud.conf line 1: comes before the first section; begin the file with [Global]"},
		{"use-clouds", ini("use-clouds=true"), "", "cloud.conf line 2: use-clouds: is not supported; put clouds.yaml into the Secret instead of cloud.conf"},
		{"interface", ini("auth-url=http://k/v3", "token=T0ken!!!", "os-endpoint-type=secret"), "", `cloud.conf line 4: os-endpoint-type: "secret" is none of public, internal and admin`},
		{"all at once", ini("auth-url=http://k/v2.0", "cinder-endpoint=http://c/v1/x", "tls-insecure=maybe"), "",
			`cloud.conf line 2: auth-url: http://k/v2.0 is of the Identity API v2.0, which Keystone has no more; write http://k/v3; cloud.conf line 3: cinder-endpoint: http://c/v1/x is of the Block Storage API v1, which Cinder has had no more since 19.0.0 (Xena); write http://c/v3/x; cloud.conf line 4: tls-insecure: "maybe" is neither true nor false`},
		{"CA not in the Secret", ini("auth-url=http://k/v3", "token=T0ken!!!", "ca-file=/etc/ssl/my.pem"), "", "cloud.conf line 4: ca-file: /etc/ssl/my.pem is not in the Secret; put it there under the key my.pem"},
		{"CA without a certificate", plus(ini("auth-url=http://k/v3", "token=T0ken!!!"), file("ca.crt", "x")), "", "ca-file: has no certificate in PEM"},
		{"key without certificate", plus(ini("auth-url=http://k/v3", "token=T0ken!!!"), file("tls.key", "x")), "", "cert-file and key-file are given both or not at all"},
		{"bad certificate", plus(ini("auth-url=http://k/v3", "token=T0ken!!!"), Files{"tls.key": []byte("Passw0rd!"), "tls.crt": []byte("x")}), "", "cert-file and key-file are not a certificate and its key in PEM"},
		{"noauth project", ini("cinder-endpoint=http://c/v3", "tenant-name=a:b"), "", `cloud.conf line 3: tenant-name: "a:b" has one of the characters :/?#% and space, which do not fit into a token without authentication`},
		{"unknown variable", variables("OS_AUTH_URL=http://k", "OS_PASWORD=Passw0rd!"), "", "OS_PASWORD: is not known"},
		{"v2 by its version", variables("OS_AUTH_URL=http://k", "OS_IDENTITY_API_VERSION=2.0", "OS_TOKEN=T0ken!!!"), "", `OS_IDENTITY_API_VERSION: "2.0" is not supported; Keystone has v3 only`},
		{"OS_CLOUD", variables("OS_CLOUD=west"), "", "OS_CLOUD: needs clouds.yaml in the Secret instead of the other variables; name the cloud in the property cloud"},
		{"other authentication", variables("OS_AUTH_URL=http://k", "OS_AUTH_TYPE=http_basic"), "", `OS_AUTH_TYPE: "http_basic" is not supported; use password, v3applicationcredential, token or none`},
		{"not YAML", file(cloudsYAML, "clouds: [Passw0rd!"), "", "clouds.yaml: is not YAML with a map of clouds, each of them a map"},
		{"no clouds", file(cloudsYAML, "x: 1"), "", "clouds.yaml: has no clouds"},
		{"which cloud", file(cloudsYAML, "clouds: {a: {}, b: {}}"), "", "clouds.yaml: has the clouds a, b; name one in the property cloud"},
		{"no such cloud", file(cloudsYAML, "clouds: {a: {}, b: {}}"), "c", `clouds.yaml: has no cloud "c" but a, b; correct the property cloud`},
		{"number", file(cloudsYAML, "clouds: {a: {auth: {auth_url: 'http://k', username: a, password: 12345678}}}"), "", "clouds.yaml a: auth.password: must be text; put numbers into quotes"},
		{"profile", file(cloudsYAML, "clouds: {a: {profile: vexxhost}}"), "", "clouds.yaml a: profile: vendor profiles are not supported; write auth_url and the rest into the cloud"},
		{"a project twice", file(cloudsYAML, "clouds: {a: {auth: {auth_url: 'http://k', token: 'T0ken!!!', tenant_id: p, project_id: q}}}"), "", "clouds.yaml a: auth.tenant_id: clouds.yaml a: auth.project_id says something else; keep one of them"},
		{"a fault in secure.yaml", Files{cloudsYAML: []byte("clouds: {a: {auth: {auth_url: 'http://k', username: a}}}"), secureYAML: []byte("clouds: {a: {auth: {pasword: Passw0rd!}}}")}, "",
			"secure.yaml a: auth.pasword: is not known"},
		{"clouds.yaml's URL", file(cloudsYAML, "clouds: {a: {auth: {auth_url: 'k:5000', token: 'T0ken!!!'}}}"), "", "clouds.yaml a: auth.auth_url: is not a URL like https://cloud.example.com:5000/v3"},
		{"clouds.yaml's interface", file(cloudsYAML, "clouds: {a: {interface: secret, auth: {auth_url: 'http://k', token: 'T0ken!!!'}}}"), "", `clouds.yaml a: interface: "secret" is none of public, internal and admin`},
		{"clouds.yaml's CA not in the Secret", file(cloudsYAML, "clouds: {a: {cacert: /etc/ssl/my.pem, auth: {auth_url: 'http://k', token: 'T0ken!!!'}}}"), "", "clouds.yaml a: cacert: /etc/ssl/my.pem is not in the Secret; put it there under the key my.pem"},
		{"no auth", file(cloudsYAML, "clouds: {a: {region_name: west}}"), "", "auth-url is missing; without Keystone, name Cinder itself in cinder-endpoint"},
		{"auth that is no map", file(cloudsYAML, "clouds: {a: {auth: Passw0rd!}}"), "", "clouds.yaml a: auth: must be a map"},
		{"a map for a password", file(cloudsYAML, "clouds: {a: {auth: {auth_url: 'http://k', username: a, password: {Passw0rd!: x}}}}"), "", "clouds.yaml a: auth.password: must be text; put numbers into quotes"},
		{"unknown in auth", file(cloudsYAML, "clouds: {a: {auth: {auth_url: 'http://k', pasword: Passw0rd!}}}"), "", "clouds.yaml a: auth.pasword: is not known"},
		{"a password that is asked for", file("openrc", dashboard), "", "openrc line 17: OS_PASSWORD: the shell would ask for it, or take it from elsewhere: put it into the Secret as well, under the key OS_PASSWORD"},
		{"another password beside it", Files{"openrc": []byte("OS_PASSWORD=Passw0rd!\n"), "OS_PASSWORD": []byte("S3cret!!")},
			"", "openrc line 1: OS_PASSWORD: the key OS_PASSWORD of the Secret says something else; keep one of them"},
		{"two files", Files{"a-openrc.sh": nil, "b-openrc.sh": nil}, "", "found more than one of cloud.conf, clouds.yaml, openrc and OS_*: a-openrc.sh, b-openrc.sh; keep one of them in the Secret"},
		{"beside another form", Files{"openrc": nil, cloudConf: nil}, "", "found more than one of cloud.conf, clouds.yaml, openrc and OS_*: cloud.conf, openrc; keep one of them in the Secret"},
		{"an open quote", file("openrc", "export OS_PASSWORD=\"Passw0rd!\n"), "", "openrc line 1: OS_PASSWORD: a quote is not closed"},
		{"two words", file("openrc", "export OS_PASSWORD=my Passw0rd!\n"), "", "openrc line 1: OS_PASSWORD: something follows the value: put the value into quotes"},
		{"a command behind it", file("openrc", "export OS_PASSWORD=Passw0rd!&x\n"), "", "openrc line 1: OS_PASSWORD: needs a shell: put the value into single quotes"},
		{"two variables on a line", file("openrc", "OS_USERNAME=u; OS_PASSWORD=Passw0rd!\n"), "", "openrc line 1: OS_USERNAME: another variable OS_ follows on the line: write each on a line of its own"},
		{"two variables without a blank", file("openrc", "OS_USERNAME=u;OS_PASSWORD=Passw0rd!\n"), "", "openrc line 1: OS_USERNAME: another variable OS_ follows on the line: write each on a line of its own"},
		{"two variables, one open", file("openrc", "OS_USERNAME=$USER; OS_PASSWORD=Passw0rd!\n"), "", "openrc line 1: OS_USERNAME: another variable OS_ follows on the line: write each on a line of its own"},
		{"a line behind a command", file("openrc", "\nset -a; OS_PASSWORD=Passw0rd!\n"), "", unread(2)},
		{"options that end", file("openrc", "export -- OS_PASSWORD=Passw0rd!\n"), "", unread(1)},
		{"a quoted assignment", file("openrc", "export \"OS_PASSWORD=Passw0rd!\"\n"), "", unread(1)},
		{"readonly", file("openrc", "readonly OS_PASSWORD=Passw0rd!\n"), "", unread(1)},
		{"an appended value", file("openrc", "OS_PASSWORD+=Passw0rd!\n"), "", unread(1)},
		{"a default", file("openrc", ": ${OS_PASSWORD=Passw0rd!}\n"), "", unread(1)},
		{"an assignment behind what is printed", file("openrc", "echo hello; OS_PASSWORD=Passw0rd!\n"), "", unread(1)},
		{"an unset variable", file("openrc", "OS_PASSWORD=Passw0rd!\nunset OS_TENANT_ID OS_PASSWORD # no more\n"),
			"", "openrc line 2: unsets OS_PASSWORD, which an earlier line sets: keep one of the lines"},
		{"what only looks like it", file("openrc", "# OS_PASSWORD=Passw0rd!\nMY_OS_TOKEN=a\necho \"set OS_PASSWORD=...\"\nOS_USERNAME='a; OS_TOKEN=b' # OS_TOKEN=c\n"),
			"", "auth-url is missing; without Keystone, name Cinder itself in cinder-endpoint"},
		{"a line that goes on", file("openrc", "export OS_PASSWORD=Passw0rd!\\\nx\n"), "", "openrc line 1: OS_PASSWORD: goes on in the next line: write it in one"},
		{"no assignments", file("openrc", "password: Passw0rd!\n"), "", "auth-url is missing; without Keystone, name Cinder itself in cinder-endpoint"},
		{"a project twice in openrc", file("openrc", "OS_TENANT_ID=a\nOS_PROJECT_ID=b\n"), "", "openrc line 2: OS_PROJECT_ID: openrc line 1: OS_TENANT_ID says something else; keep one of them"},
		{"an unknown key beside it", Files{"openrc": []byte(dashboard), "OS_PASSWORD": []byte("x"), "OS_PASWORD": []byte("Passw0rd!")}, "", "OS_PASWORD: is not known"},
		{"quotes that kubectl kept", variables(`OS_AUTH_URL="http://k/v3"`, "OS_TOKEN='T0ken!!!'"),
			"", "OS_AUTH_URL: is in quotes, which --from-env-file keeps; create the Secret with --from-file=openrc=FILE; OS_TOKEN: is in quotes, which --from-env-file keeps; create the Secret with --from-file=openrc=FILE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, err := Parse(c.files, c.cloud)
			if err == nil || err.Error() != c.err || config != nil {
				t.Errorf("got  %v\nwant %s", err, c.err)
			}
		})
	}
}

// The environment of the pod has no say.
func TestCloudsWithoutEnvironment(t *testing.T) {
	for _, name := range []string{"OS_CLOUD", "OS_REGION_NAME", "OS_INTERFACE", "OS_CLIENT_CONFIG_FILE", "OS_CACERT"} {
		t.Setenv(name, "/elsewhere")
	}
	files := file(cloudsYAML, "clouds: {a: {auth: {auth_url: 'http://keystone-host:5000', token: 'T0ken!!!'}}}")
	got, err := Parse(files, "")
	if err != nil {
		t.Fatal(err)
	}
	if a, b := shown(*got), shown(Config{AuthURL: keystone, Interface: "public", auth: tokens.AuthOptions{TokenID: "T0ken!!!"}}); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}

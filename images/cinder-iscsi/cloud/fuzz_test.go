package cloud

import (
	"strings"
	"testing"
)

// secret stands for one that is in the file; no error may have it.
const secret = "S3CR3T-V4LUE"

func FuzzINI(f *testing.F) {
	for _, text := range []string{
		"[Global]\nauth-url=http://k/v3\nusername=a\npassword=" + secret + "\ntenant-id=1\n",
		"[Cinder]\nendpoint=http://c:8776/v3\n", "[Global]\npassword=\"" + secret + "\n", "[Global \"x\"]\na=b", "x=y", "[", "[Global]\n\\", "[Global]\npassword=\"a\\\"b\" # c",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkParsed(t, file(cloudConf, text))
	})
}

func FuzzClouds(f *testing.F) {
	f.Add("clouds:\n  a:\n    auth: {auth_url: 'http://k', username: a, password: "+secret+", project_id: p}\n", "clouds: {a: {auth: {password: "+secret+"}}}")
	f.Add("clouds: {a: {regions: [{name: x}]}}", "")
	f.Add("clouds: [", "clouds: {a: 1}")
	f.Add("clouds: {a: null}", "{}")
	f.Fuzz(func(t *testing.T, public, private string) {
		checkParsed(t, Files{cloudsYAML: []byte(public), secureYAML: []byte(private)})
	})
}

// checkParsed: a config can be used, and says where the secret is; an error does not show it.
func checkParsed(t *testing.T, files Files) {
	t.Helper()
	config, err := Parse(files, "")
	switch {
	case err != nil && config != nil || err == nil && config == nil:
		t.Errorf("config %v with error %v", config, err)
	case err != nil && strings.Contains(err.Error(), "="+secret):
		t.Errorf("error shows a secret: %v", err)
	case err != nil:
	case config.AuthURL == "" && config.Endpoint == "" || config.Interface == "":
		t.Errorf("config %#v", *config)
	case config.auth.Password != "" && config.Secrets()[0] == "":
		t.Error("the password is not among the secrets")
	}
}

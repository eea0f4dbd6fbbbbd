package cloud

import (
	"fmt"
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
	for _, password := range []string{"yes", "0123", "~", " a: b # c ", "a\nb\tc", "\"'\\", "\u0085\u2028\ufeff\u00e9", "\x7f"} {
		f.Add(fmt.Sprintf("clouds: {a: {auth: {auth_url: 'http://k', username: a, password: %q, project_id: p}}}", password), "")
	}
	f.Fuzz(func(t *testing.T, public, private string) {
		files := Files{cloudsYAML: []byte(public), secureYAML: []byte(private)}
		checkParsed(t, files)
		checkPassword(t, files)
	})
}

// checkPassword: the password is what the files say, to the letter.
func checkPassword(t *testing.T, files Files) {
	t.Helper()
	config, err := Parse(files, "")
	if err != nil || config.auth.Password == "" {
		return
	}
	want := ""
	for name := range cloudsOf(t, files[cloudsYAML]) { // there is one
		for _, file := range []string{cloudsYAML, secureYAML} {
			auth, _ := cloudsOf(t, files[file])[name]["auth"].(map[string]any)
			if value := auth["password"]; value != nil && value != "" {
				want = fmt.Sprint(value)
			}
		}
	}
	if config.auth.Password != want {
		t.Errorf("password %q, want %q", config.auth.Password, want)
	}
}

func cloudsOf(t *testing.T, data []byte) map[string]map[string]any {
	t.Helper()
	read, err := readClouds(data, cloudsYAML)
	if err != nil {
		t.Fatal(err)
	}
	return read
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

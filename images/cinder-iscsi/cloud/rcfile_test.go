package cloud

import (
	"fmt"
	"os/exec"
	"testing"
)

// dashboard is the file of OpenStack's dashboard for user, password and one project. It asks for the password.
const dashboard = `#!/usr/bin/env bash
# To use an OpenStack cloud you need to authenticate against the Identity
# service named keystone, which returns a **Token** and **Service Catalog**.
export OS_AUTH_URL=http://keystone-host:5000/v3/
export OS_PROJECT_ID=637b7373213d439d8119285244481456
export OS_PROJECT_NAME="k8s"
export OS_USER_DOMAIN_NAME="Users"
if [ -z "$OS_USER_DOMAIN_NAME" ]; then unset OS_USER_DOMAIN_NAME; fi
export OS_PROJECT_DOMAIN_ID="default"
if [ -z "$OS_PROJECT_DOMAIN_ID" ]; then unset OS_PROJECT_DOMAIN_ID; fi
# unset v2.0 items in case set
unset OS_TENANT_ID
unset OS_TENANT_NAME
export OS_USERNAME="admin"
echo "Please enter your OpenStack Password for project $OS_PROJECT_NAME as user $OS_USERNAME: "
read -sr OS_PASSWORD_INPUT
export OS_PASSWORD=$OS_PASSWORD_INPUT
export OS_REGION_NAME="RegionOne"
# Don't leave a blank variable, unset it if it was empty
if [ -z "$OS_REGION_NAME" ]; then unset OS_REGION_NAME; fi
export OS_INTERFACE=public
export OS_IDENTITY_API_VERSION=3
`

func unread(line int) string {
	return fmt.Sprintf("openrc line %d: sets a variable OS_ in a form that is not read: write export NAME=VALUE on a line of its own", line)
}

// TestShellWord: what is read is what a shell reads, and what a shell would have to work out is left to it.
func TestShellWord(t *testing.T) {
	for _, text := range []string{
		"", "a", "'a b'", `"a b"`, `a\ b`, `a"b c"'d e'f`, `"a\"b\\c\$d\e"`, `'a\b'`, `a#b`, "a #b", "a;b", `"a'b"`, `'a"b'`, `a\"b`, `"a$"`, `"a$ b"`, "a$", `a\$b`, `'$a'`, "'`a`'", "é", "~x", "a=b",
	} {
		want, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", "export OS_X="+text+"\nprintf %s \"$OS_X\"").Output()
		if err != nil {
			t.Fatal(err)
		}
		word, open, err := shellWord(text)
		if word != string(want) || open || err != nil {
			t.Errorf("%q: got %q, %t, %v, want %q as a shell", text, word, open, err, want)
		}
	}
	for _, text := range []string{"$a", `"$a"`, "x$a'", "`a`", "\"`a`\"", "$(a | b)", `"$(a "b")"`, "${a:-b}", "$$", "$'a'", `"$1"`} {
		if word, open, err := shellWord(text); word != "" || !open || err != nil {
			t.Errorf("%q: got %q, %t, %v, want it to be open", text, word, open, err)
		}
	}
}

func FuzzRCFile(f *testing.F) {
	f.Add(dashboard)
	f.Add("export OS_AUTH_URL=http://k OS_TOKEN=" + secret)
	f.Add("OS_AUTH_URL=http://k\nOS_USERNAME=a\nOS_PROJECT_ID=b\nOS_PASSWORD=" + secret)
	f.Add(fmt.Sprintf("OS_PASSWORD=%q\\", secret))
	f.Fuzz(func(t *testing.T, text string) { checkParsed(t, file("openrc", text)) })
}

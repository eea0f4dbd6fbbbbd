package cloud

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
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

func TestRCFile(t *testing.T) {
	byProjectID := passwordAuth()
	byProjectID.DomainID, byProjectID.DomainName = "", "Users"
	byName := byProjectID
	byName.Scope = tokens.Scope{ProjectName: "k8s", DomainName: "Projects"}
	for _, c := range []struct {
		name  string
		files Files
		want  Config
	}{
		{"the dashboard's file with the password beside it", Files{"k8s-openrc.sh": []byte(dashboard), "OS_PASSWORD": []byte("Passw0rd!\n")},
			Config{AuthURL: keystone, Region: "RegionOne", auth: byProjectID}},
		{"the dashboard's file for an application credential", file("app-cred-k8s-openrc.sh", "#!/usr/bin/env bash\n\nexport OS_AUTH_TYPE=v3applicationcredential\n"+
			"export OS_AUTH_URL=http://keystone-host:5000/v3\nexport OS_IDENTITY_API_VERSION=3\nexport OS_REGION_NAME=\"RegionOne\"\nexport OS_INTERFACE=public\n"+
			"export OS_APPLICATION_CREDENTIAL_ID=ac-1\nexport OS_APPLICATION_CREDENTIAL_SECRET=S3cret!!\n"),
			Config{AuthURL: keystone, Region: "RegionOne", auth: tokens.AuthOptions{ApplicationCredentialID: "ac-1", ApplicationCredentialSecret: "S3cret!!", AllowReauth: true}}},
		{"an installer's file for administrators", file("openrc", "# managed\nfor key in $( set | awk '{FS=\"=\"}  /^OS_/ {print $1}' ); do unset $key ; done\r\n"+
			"export OS_PROJECT_DOMAIN_NAME='Projects'\r\n    export OS_USER_DOMAIN_NAME='Users' # here\r\nexport OS_PROJECT_NAME='k8s'\nexport OS_TENANT_NAME='k8s'\nexport OS_USERNAME=admin;\n"+
			"export OS_PASSWORD='wrong'\nexport OS_PASSWORD='Passw0rd!'\nexport OS_AUTH_URL=http://keystone-host:5000\nexport OS_INTERFACE='internal'\nexport OS_ENDPOINT_TYPE='internalURL'\n"+
			"export OS_MANILA_ENDPOINT_TYPE='internalURL'\nexport OS_AUTH_PLUGIN='password'\nexport PS1='[\\u@\\h \\W]\\$ '\n"),
			Config{AuthURL: keystone, Interface: "internal", auth: byName}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.files, "")
			if err != nil {
				t.Fatal(err)
			}
			if c.want.Interface == "" {
				c.want.Interface = "public"
			}
			if a, b := shown(*got), shown(c.want); a != b {
				t.Errorf("got\n%s\nwant\n%s", a, b)
			}
		})
	}
}

func unread(line int) string {
	return fmt.Sprintf("openrc line %d: sets a variable OS_ in a form that is not read: write export NAME=VALUE on a line of its own", line)
}

func TestRCFileErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		files Files
		want  string
	}{
		{"a password that is asked for", file("openrc", dashboard), "openrc line 17: OS_PASSWORD: the shell would ask for it, or take it from elsewhere: put it into the Secret as well, under the key OS_PASSWORD"},
		{"another password beside it", Files{"openrc": []byte("OS_PASSWORD=Passw0rd!\n"), "OS_PASSWORD": []byte("S3cret!!")},
			"openrc line 1: OS_PASSWORD: the key OS_PASSWORD of the Secret says something else; keep one of them"},
		{"two files", Files{"a-openrc.sh": nil, "b-openrc.sh": nil}, "found more than one of cloud.conf, clouds.yaml, openrc and OS_*: a-openrc.sh, b-openrc.sh; keep one of them in the Secret"},
		{"beside another form", Files{"openrc": nil, cloudConf: nil}, "found more than one of cloud.conf, clouds.yaml, openrc and OS_*: cloud.conf, openrc; keep one of them in the Secret"},
		{"an open quote", file("openrc", "export OS_PASSWORD=\"Passw0rd!\n"), "openrc line 1: OS_PASSWORD: a quote is not closed"},
		{"two words", file("openrc", "export OS_PASSWORD=my Passw0rd!\n"), "openrc line 1: OS_PASSWORD: something follows the value: put the value into quotes"},
		{"a command behind it", file("openrc", "export OS_PASSWORD=Passw0rd!&x\n"), "openrc line 1: OS_PASSWORD: needs a shell: put the value into single quotes"},
		{"two variables on a line", file("openrc", "OS_USERNAME=u; OS_PASSWORD=Passw0rd!\n"), "openrc line 1: OS_USERNAME: another variable OS_ follows on the line: write each on a line of its own"},
		{"two variables without a blank", file("openrc", "OS_USERNAME=u;OS_PASSWORD=Passw0rd!\n"), "openrc line 1: OS_USERNAME: another variable OS_ follows on the line: write each on a line of its own"},
		{"two variables, one open", file("openrc", "OS_USERNAME=$USER; OS_PASSWORD=Passw0rd!\n"), "openrc line 1: OS_USERNAME: another variable OS_ follows on the line: write each on a line of its own"},
		{"a line behind a command", file("openrc", "\nset -a; OS_PASSWORD=Passw0rd!\n"), unread(2)},
		{"options that end", file("openrc", "export -- OS_PASSWORD=Passw0rd!\n"), unread(1)},
		{"a quoted assignment", file("openrc", "export \"OS_PASSWORD=Passw0rd!\"\n"), unread(1)},
		{"readonly", file("openrc", "readonly OS_PASSWORD=Passw0rd!\n"), unread(1)},
		{"an appended value", file("openrc", "OS_PASSWORD+=Passw0rd!\n"), unread(1)},
		{"a default", file("openrc", ": ${OS_PASSWORD=Passw0rd!}\n"), unread(1)},
		{"an assignment behind what is printed", file("openrc", "echo hello; OS_PASSWORD=Passw0rd!\n"), unread(1)},
		{"an unset variable", file("openrc", "OS_PASSWORD=Passw0rd!\nunset OS_TENANT_ID OS_PASSWORD # no more\n"),
			"openrc line 2: unsets OS_PASSWORD, which an earlier line sets: keep one of the lines"},
		{"what only looks like it", file("openrc", "# OS_PASSWORD=Passw0rd!\nMY_OS_TOKEN=a\necho \"set OS_PASSWORD=...\"\nOS_USERNAME='a; OS_TOKEN=b' # OS_TOKEN=c\n"),
			"auth-url is missing; without Keystone, name Cinder itself in cinder-endpoint"},
		{"a line that goes on", file("openrc", "export OS_PASSWORD=Passw0rd!\\\nx\n"), "openrc line 1: OS_PASSWORD: goes on in the next line: write it in one"},
		{"no assignments", file("openrc", "password: Passw0rd!\n"), "auth-url is missing; without Keystone, name Cinder itself in cinder-endpoint"},
		{"a project twice", file("openrc", "OS_TENANT_ID=a\nOS_PROJECT_ID=b\n"), "openrc line 2: OS_PROJECT_ID: openrc line 1: OS_TENANT_ID says something else; keep one of them"},
		{"an unknown key beside it", Files{"openrc": []byte(dashboard), "OS_PASSWORD": []byte("x"), "OS_PASWORD": []byte("Passw0rd!")}, "OS_PASWORD: is not known"},
		{"quotes that kubectl kept", variables(`OS_AUTH_URL="http://k/v3"`, "OS_TOKEN='T0ken!!!'"),
			"OS_AUTH_URL: is in quotes, which --from-env-file keeps; create the Secret with --from-file=openrc=FILE; OS_TOKEN: is in quotes, which --from-env-file keeps; create the Secret with --from-file=openrc=FILE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, err := Parse(c.files, "")
			if err == nil || err.Error() != c.want || config != nil {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
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

package form

import (
	"strings"
	"testing"
)

// plain are the checks that leave a text as it is.
func plain(check func(field, text string) error) func(field, text string) (string, error) {
	return func(field, text string) (string, error) { return text, check(field, text) }
}

var forms = []struct {
	name  string
	check func(field, text string) (string, error)
	// taken are texts and how they are written; refused are those that are not.
	taken   map[string]string
	refused []string
}{
	{"portal", Portal, map[string]string{
		"10.0.0.8": "10.0.0.8:3260", "10.0.0.8:3260": "10.0.0.8:3260", "10.0.0.8:03261,1": "10.0.0.8:3261", "fd00:0:0::1": "[fd00::1]:3260",
		"fd00::a:b": "[fd00::a:b]:3260", "fd00:0:0:0:0:0:0:1": "[fd00::1]:3260", "fd00:0:0:0:0:0:0:1:860": "[fd00::1]:860",
		"::ffff:10.0.0.8:860": "10.0.0.8:860", "[FD00::1]": "[fd00::1]:3260", "[fd00::1]:860": "[fd00::1]:860", "::ffff:10.0.0.8": "10.0.0.8:3260",
		"127.0.0.1:3260": "127.0.0.1:3260",
	}, []string{
		"storage-1.example.com:3260", "3par",
		"", ":3260", ",1", "10.0.0.8:", "10.0.0.8:0", "10.0.0.8:65536", "10.0.0.8:-1", "10.0.0.8:+1", "10.0.0.8:3260,x", "10.0.0.8:3260,1,2",
		"10.0.0.8:3260 -o delete", "--interface=default", "-p", "../../etc/x", "a/b", "10.0.0.8:3260/..", "fe80::1%eth0", "[fe80::1%eth0]:3260",
		"[fd00::1", "fd00::1]", "[[fd00::1]]", "user@10.0.0.8", "10.0.0.8\n", "10.0.0.8\x00", "0.0.0.0", "[::]:3260", "224.0.0.1", "ff02::1", "::ffff:0.0.0.0",
		"127.1", "0x7f000001", "1.2.3.0xff", "2130706433", "999.1.1.1", "a..b", ".a", "a.", "-a", "a-", "*", "host name", "hôst",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a", "$(id)", "10.0.0.8:3260:1",
		"fd00::1:3260", "fd00::1:3260,1", "::1:860", "fd00:0:0:0:0:0:0:1:65536", "fe80::1%eth0:3260",
	}},
	{"iSCSI name", plain(ISCSIName), map[string]string{
		"iqn.2010-10.org.openstack:volume-dae46dbd": "", "iqn.1992-08.com.netapp:sn.1:vs.3": "", "iqn.2001-05.com.Equallogic:0-8A0906_x": "",
		"eui.0123456789abcdeF": "", "naa.0123456789abcdef0123456789ABCDEF": "", "iqn.2010-10.org:" + strings.Repeat("a", 207): "",
	}, []string{
		"", "iqn.2010-10.org.openstack", "iqn.2010-10.org.openstack:", "iqn.2010-13.org:a", "iqn.2010-00.org:a", "iqn.20-10.org:a", "iqn.2010-10.:a", "IQN.2010-10.org:a",
		"iqn.2010-10.org:a/../b", "iqn.2010-10.org:a/b", "iqn.2010-10.org:a..b", "iqn.2010-10.a..b:c", "iqn.2010-10.org:*", "iqn.2010-10.org:[a]", "iqn.2010-10.org:a?",
		"iqn.2010-10.org:a b", "iqn.2010-10.org:a\n", "\niqn.2010-10.org:a", "iqn.2010-10.org:a\x00", "iqn.2010-10.org:a,b", "iqn.2010-10.org:ä", "iqn.2010-10.org:-a",
		"iqn.2010-10.org:" + strings.Repeat("a", 208), "eui.0123456789abcde", "eui.0123456789abcdeg", "eui.0123456789abcdef0", "naa.0123456789abcdef", "x",
	}},
	{"iSCSI target", ISCSITarget, map[string]string{
		"iqn.2010-10.org:a": "iqn.2010-10.org:a", "iqn.2010-10.org:a,t,0x0001": "iqn.2010-10.org:a",
		"eui.0123456789abcdef,t,0xA": "eui.0123456789abcdef",
	}, []string{
		"", ",t,0x0001", "iqn.2010-10.org:a,t,0x", "iqn.2010-10.org:a,t,0x00001", "iqn.2010-10.org:a,t,0x0g", "iqn.2010-10.org:a,t,1",
		"iqn.2010-10.org:a,i,0x0001", "iqn.2010-10.org:a,t,0x0001\n", "iqn.2010-10.org:a,t,0x1,t,0x1", "iqn.2010-10.org:a b,t,0x0001",
	}},
	{"NQN", plain(NQN), map[string]string{
		"nqn.2014-08.org.nvmexpress:uuid:dae46dbd-d712-48fe-af72-de0872d24140": "", "nqn.volume-0001": "", "nqn." + strings.Repeat("a", 219): "",
	}, []string{
		"", "nqn.", "iqn.a", "nqn.a,traddr=10.0.0.9", "nqn.a b", "nqn.a\n", "nqn.a/b", "nqn.a..b", "nqn..a", "nqn.a*", `nqn.a"`, "nqn.ä", "nqn." + strings.Repeat("a", 220),
	}},
	{"WWN", WWN, map[string]string{
		"500a098280feeba5": "500a098280feeba5", "0X500A098280FEEBA5": "500a098280feeba5", "50:0A:09:82:80:FE:EB:A5": "500a098280feeba5",
	}, []string{
		"", ".*", "500a098280feeba", "500a098280feeba55", "500a098280feeb.*", "500a098280feebag", "50-0a-09-82-80-fe-eb-a5", "5:00a098280feeba5", "0x50:0a:09:82:80:fe:eb:a5",
		"500a098280feeba5\n", "\n500a098280feeba5", "500a098280feeba5|.", "|", "００００００００００００００００",
	}},
	{"UUID", UUID, map[string]string{"DAE46DBD-d712-48fe-af72-de0872d24140": "dae46dbd-d712-48fe-af72-de0872d24140"}, []string{
		"", "dae46dbdd71248feaf72de0872d24140", "dae46dbd-d712-48fe-af72-de0872d2414g", "../dae46dbd-d712-48fe-af72-de0872d24140", "dae46dbd-d712-48fe-af72-de0872d24140\n", "*",
	}},
	{"NGUID", NGUID, map[string]string{
		"0061E7AC-1B2C-3D4E-24A9-370000012345": "0061e7ac1b2c3d4e24a9370000012345", "0061e7ac1b2c3d4e24a9370000012345": "0061e7ac1b2c3d4e24a9370000012345",
	}, []string{"", "*", "0061e7ac1b2c3d4e24a937000001234", "0061e7ac1b2c3d4e24a93700000123456", "eui.0061e7ac1b2c3d4e24a9370000012345", "0061e7ac1b2c3d4e24a937000001234g"}},
	{"address", Address, map[string]string{"10.0.0.8": "10.0.0.8", "[FD00:0::1]": "fd00::1"}, []string{
		"", "storage.example.com", "fe80::1%eth0", "fe80::1%eth0,host_traddr=10.0.0.9", "10.0.0.8,trsvcid=1", "10.0.0.8:4420", "[10.0.0.8", "0.0.0.0", "::", "239.0.0.1", "10.0.0.08", " 10.0.0.8",
	}},
	{"port", Port, map[string]string{"4420": "4420", "04420": "4420", "65535": "65535"}, []string{"", "0", "65536", "-1", "+1", "4420,x", "0x10", "1e3", "1 ", "٤", "999999"}},
	{"Ceph name", plain(CephName), map[string]string{"volumes": "", "volume-dae46dbd.deleted_1": "", strings.Repeat("a", 128): ""}, []string{
		"", "_a", "-a", "--id", ".a", "a..b", "a/b", "a@b", "a b", "a\n", "a,b", "a=b", "ä", strings.Repeat("a", 129),
	}},
	{"project ID", plain(ProjectID), map[string]string{"11111111111111111111111111111111": "", "admin": "", "dae46dbd-d712-48fe-af72-de0872d24140": "", strings.Repeat("a", 64): ""}, []string{
		"", "../x", "a/b", "a?b", "a#b", "a%2fb", "-a", ".", "a\n", "ä", strings.Repeat("a", 65),
	}},
	{"status", plain(Status), map[string]string{"in-use": "", "error_backing-up": ""}, []string{"", "In-Use", "a b", "a\n", "-a", strings.Repeat("a", 65)}},
	{"credential", plain(Credential), map[string]string{"x": "", "a b#=$(id)'\"": "", strings.Repeat("x", 255): ""}, []string{
		"", " a", "a ", "a\nnode.startup = automatic", "a\r", "a\x00", "a\tb", "ä", strings.Repeat("x", 256),
	}},
}

func TestForms(t *testing.T) {
	for _, f := range forms {
		for text, want := range f.taken {
			if want == "" {
				want = text
			}
			if got, err := f.check("field", text); err != nil || got != want {
				t.Errorf("%s %q: got %q, %v, want %q", f.name, text, got, err, want)
			}
		}
		for _, text := range f.refused {
			got, err := f.check("field", text)
			if err == nil {
				t.Errorf("%s %q: got %q, want an error", f.name, text, got)
			} else if !strings.HasPrefix(err.Error(), "field ") || len(err.Error()) > 700 || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%s %q: the error is %q", f.name, text, err)
			}
		}
	}
}

func TestLUNAndCount(t *testing.T) {
	for _, lun := range []int64{-1, 256, 1 << 32, -1 << 63} {
		if got, err := LUN("target_lun", lun); err == nil {
			t.Errorf("LUN %d became %d", lun, got)
		}
	}
	for _, lun := range []int64{0, 255} {
		if got, err := LUN("target_lun", lun); err != nil || int64(got) != lun {
			t.Errorf("LUN %d: got %d, %v", lun, got, err)
		}
	}
	if err := Count("target_wwns", MaxItems); err != nil {
		t.Error(err)
	}
	if err, want := Count("target_wwns", MaxItems+1), "target_wwns has 65 items; it may have 64"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLine(t *testing.T) {
	long := strings.Repeat("word ", 100)
	for text, want := range map[string]string{
		"":                                    "",
		"\n \n No\tspace \x1b[31mleft\nTrace": "No space [31mleft",
		"a\u202eb\u2028c":                     "a b c",
		"a\xff b":                             "a? b",
		long:                                  strings.Repeat("word ", 80) + "...",
		strings.Repeat("x", 1000):             "...",
		strings.Repeat("x", 400):              strings.Repeat("x", 400),
		"says " + strings.Repeat("x", 1000):   "says ...",
	} {
		if got := Line(text); got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", text, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for text, want := range map[string]string{"a\n\"ä": `"a\n\"\u00e4"`, strings.Repeat("x", 101): `"` + strings.Repeat("x", 100) + `"...`} {
		if got := Quote(text); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func FuzzForms(f *testing.F) {
	for i, form := range forms {
		for text := range form.taken {
			f.Add(uint8(i), text)
		}
		for _, text := range form.refused {
			f.Add(uint8(i), text)
		}
	}
	f.Fuzz(func(t *testing.T, i uint8, text string) {
		form := forms[int(i)%len(forms)]
		got, err := form.check("field", text)
		if err != nil {
			return
		}
		if len(got) == 0 || len(got) > 260 || strings.ContainsFunc(got, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%s %q became %q", form.name, text, got)
		}
		if again, err := form.check("field", got); err != nil || again != got {
			t.Errorf("%s %q became %q, and that %q, %v", form.name, text, got, again, err)
		}
	})
}

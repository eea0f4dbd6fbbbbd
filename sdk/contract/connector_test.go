package contract

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestConnector(t *testing.T) {
	all := Connector{IQN: "iqn.2016-04.com.open-iscsi:1a2b3c", NQN: "nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0042-3510-8047-b4c04f564433",
		WWPNs: []string{"21000024ff3d2a1c", "21000024ff3d2a1d"}, IP: "10.0.0.11"}
	for text, want := range map[string]Connector{
		all.String(): all,
		`{"iqn":"eui.02004567A425678D","ip":"2001:db8::1"}`: {IQN: "eui.02004567A425678D", IP: "2001:db8::1"},
		`{"iqn":"iqn.2016-04.com.example:a","later":{}}`:    {IQN: "iqn.2016-04.com.example:a"},
		"node-1": {},
		"":       {},
	} {
		if got, err := ParseConnector(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", text, got, err, want)
		}
	}

	want := `{"iqn":"iqn.2016-04.com.open-iscsi:1a2b3c","nqn":"nqn.2014-08.org.nvmexpress:uuid:4c4c4544-0042-3510-8047-b4c04f564433",` +
		`"wwpns":["21000024ff3d2a1c","21000024ff3d2a1d"],"ip":"10.0.0.11"}`
	if all.String() != want {
		t.Errorf("%s, want %s", all, want)
	}
}

// A node writes its ID itself.
func TestConnectorRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"iqn":"iqn.2016-04.com.example:a b"}`: `"iqn.2016-04.com.example:a b" is no name of an iSCSI initiator, such as iqn.2016-04.com.example:node-1`,
		`{"iqn":"a"}`:                           `"a" is no name of an iSCSI initiator, such as iqn.2016-04.com.example:node-1`,
		`{"nqn":"iqn.2016-04.com.example:a"}`:   `"iqn.2016-04.com.example:a" is no name of an NVMe host, such as nqn.2014-08.org.nvmexpress:uuid:UUID`,
		`{"wwpns":["0x21000024ff3d2a1c"]}`:      `"0x21000024ff3d2a1c" is no name of a Fibre Channel port: it has 16 hexadecimal digits`,
		`{"wwpns":[""]}`:                        `"" is no name of a Fibre Channel port: it has 16 hexadecimal digits`,
		`{"ip":"node-1"}`:                       `"node-1" is no IP address`,
		`{"ip":"fe80::1%eth0"}`:                 `"fe80::1%eth0" is no IP address`,
		`{"iqn":1}`:                             "the connector is no JSON of its form: json: cannot unmarshal number into Go struct field Connector.iqn of type string",
		`{`:                                     "the connector is no JSON of its form: unexpected end of JSON input",
		`{"iqn":"iqn.2016-04.a:` + strings.Repeat("a", 300) + `"}`: "the connector has 324 bytes, at most 256 are allowed",
	} {
		got, err := ParseConnector(text)
		if fmt.Sprint(err) != want || !reflect.DeepEqual(got, Connector{}) {
			t.Errorf("%s: %+v, %v, want %s", text, got, err, want)
		}
	}
}

package mapper_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/mapper"
	"github.com/flex-provisioner/flex-provisioner/test/golden"
)

func printed(values ...any) []string {
	var texts []string
	for _, value := range values {
		texts = append(texts, fmt.Sprint(value), fmt.Sprintf("%+v", value), fmt.Sprintf("%#v", value))
	}
	return texts
}

func FuzzISCSI(f *testing.F)        { fuzzKind(f, "iscsi") }
func FuzzISER(f *testing.F)         { fuzzKind(f, "iser") }
func FuzzFibreChannel(f *testing.F) { fuzzKind(f, "fibre_channel") }
func FuzzRBD(f *testing.F)          { fuzzKind(f, "rbd") }
func FuzzNVMe(f *testing.F)         { fuzzKind(f, "nvmeof") }

// FuzzDecode has the connection of any kind and shape.
func FuzzDecode(f *testing.F) {
	addFolders(f)
	f.Add([]byte(`{"connection_info": {"driver_volume_type": "iscsi", "data": 1}}`), uint8(0), "", false)
	f.Add([]byte(strings.Repeat(`{"connection_info":`, 100)), uint8(0), "", true)
	inputs := fuzzInputs(f)
	f.Fuzz(func(t *testing.T, data []byte, at uint8, text string, other bool) {
		mapAndCheck(t, inputs[other], replaced(data, at, text))
	})
}

// fuzzKind maps connections of one kind. Its seeds are the cases, and each hostile value of the tables in any of their places.
func fuzzKind(f *testing.F, kind string) {
	addFolders(f)
	f.Add([]byte(`{"target_portal": "10.0.0.1", "target_iqn": "iqn.2010-10.org:a", "target_lun": 1, "target_portals": ["10.0.0.1", "[fd00::1]:1"]}`), uint8(0), "", true)
	f.Add([]byte(`{"target_wwn": ["500a098280feeba5", "500a098280feeba6"], "target_luns": [1, 2], "target_lun": 2}`), uint8(9), "", true)
	for _, text := range []string{
		"10.0.0.1:3260", "[fe80::1%eth0]:3260", "-o", "../..", "iqn.2010-10.org:a/../b", "eui.0123456789abcdef", "500a098280feeba6", ".*", "nqn.a,b", "a\nb", "\x00",
		strings.Repeat("x", 1000), "256", "-1", "0x500a098280feeba5", "rocev2", "CHAP", "pool/image", "fd00::1", "ro", "\u202e", "65536", "0",
		"iqn.2010-10.org:a..b", "iqn.2010-10.org:*", "nqn.a..b", "nqn.a/b", "pool/a..b", "10.0.0.1:0", "127.1", "fe80::1%a,b", strings.Repeat("a.", 120),
	} {
		data, err := json.Marshal(bases[kind])
		if err != nil {
			f.Fatal(err)
		}
		for at := range len(bases[kind]) + 2 {
			f.Add(data, uint8(at), text, false)
			f.Add(data, uint8(at), text, true)
		}
	}
	inputs := fuzzInputs(f)
	f.Fuzz(func(t *testing.T, data []byte, at uint8, text string, other bool) {
		data = replaced(data, at, text)
		if !json.Valid(data) {
			return
		}
		mapped := mapAndCheck(t, inputs[other], fmt.Appendf(nil, `{"driver_volume_type": %q, "data": %s}`, kind, data))
		if mapped.Source.FC != nil {
			checkLUNs(t, data, mapped.Source.FC)
		}
	})
}

// addFolders adds the data of each case, in the folders of TestMap.
func addFolders(f *testing.F) {
	files := golden.FS(f, archive)
	connections, err := fs.Glob(files, "*/connection.json")
	if err != nil || len(connections) == 0 {
		f.Fatalf("%d cases, %v", len(connections), err)
	}
	for _, file := range connections {
		data, err := fs.ReadFile(files, file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint8(0), "", false)
		var outer struct {
			Info struct {
				Data json.RawMessage `json:"data"`
			} `json:"connection_info"`
		}
		if json.Unmarshal(data, &outer) == nil && len(outer.Info.Data) > 0 {
			f.Add([]byte(outer.Info.Data), uint8(1), "", true)
		}
	}
}

// fuzzInputs differ in all that a class decides.
func fuzzInputs(f *testing.F) map[bool]mapper.Input {
	return map[bool]mapper.Input{
		false: input(f, map[string]string{"cephClusterID": "c", "cephSecretName": "s", "cephSecretNamespace": "n"}, false),
		true:  input(f, map[string]string{"rbd": "native", "cephSecretName": "s", "cephSecretNamespace": "n", "initiatorMode": "node"}, true),
	}
}

// replaced puts text in place of one of the strings and numbers in data: changed byte by byte, a long JSON is rarely one.
func replaced(data []byte, at uint8, text string) []byte {
	var value any
	if text == "" || json.Unmarshal(data, &value) != nil {
		return data
	}
	left := int(at)
	out, err := json.Marshal(replace(value, &left, text))
	if err != nil {
		return data
	}
	return out
}

func replace(value any, left *int, text string) any {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			v[key] = replace(v[key], left, text)
		}
	case []any:
		for i := range v {
			v[i] = replace(v[i], left, text)
		}
	case string, float64:
		*left--
		if *left == -1 {
			return text
		}
	}
	return value
}

// mapAndCheck: what comes out is an error that can be shown, or a volume that neither the API server nor a node is misled by,
// and the same each time.
func mapAndCheck(t *testing.T, in mapper.Input, data []byte) mapper.Mapped {
	connection, err := mapper.Decode(data)
	if err != nil {
		checkError(t, err)
		return mapper.Mapped{}
	}
	checkReached(t, connection, in)
	mapped, err := mapper.Map(connection, in)
	if err != nil {
		checkError(t, err)
		return mapper.Mapped{}
	}
	check(t, mapped, in)
	again, err := mapper.Map(connection, in)
	if err != nil || mustJSON(t, again.Source) != mustJSON(t, mapped.Source) {
		t.Errorf("mapped once as %s, and then as %s, %v", mustJSON(t, mapped.Source), mustJSON(t, again.Source), err)
	}
	return mapped
}

// checkReached: what flex-node gets of a connection are paths of three safe parts.
func checkReached(t *testing.T, connection mapper.Connection, in mapper.Input) {
	reached, err := mapper.Reach(connection, in)
	if err != nil {
		checkError(t, err)
		return
	}
	if len(reached.Paths) == 0 || len(reached.Paths) > 65 || reached.WWID != "" && !only(reached.WWID, hex, 33) {
		t.Errorf("reached %q by %q", reached.WWID, reached.Paths)
	}
	for _, path := range reached.Paths {
		parts := strings.Split(path, "/")
		if len(parts) != 3 || !isHostPort(parts[0]) || !isISCSIName(parts[1]) {
			t.Fatalf("path %q", path)
		}
		if lun, err := strconv.Atoi(parts[2]); err != nil || lun < 0 || lun > 255 {
			t.Errorf("path %q", path)
		}
	}
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

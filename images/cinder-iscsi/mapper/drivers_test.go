package mapper_test

import (
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/mapper"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// shape is a connection as a driver of Cinder makes it, and the volume or the refusal that it has to lead to.
type shape struct {
	Driver, What, Type string
	Data               map[string]any
	Class              map[string]string
	Block              bool
	Want               *corev1.PersistentVolumeSource
	Secret             map[string]string
	Refused            string
}

// shapes are those of testdata/drivers.yaml.
func shapes(t *testing.T) []shape {
	t.Helper()
	data, err := os.ReadFile("testdata/drivers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []shape
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		t.Fatal(err)
	}

	return all
}

// text is the connection as Cinder sends it, completed by its manager.
func (s shape) text(t *testing.T) []byte {
	t.Helper()
	data := fields{"qos_specs": nil, "access_mode": "rw", "encrypted": false, "cacheable": false}
	maps.Copy(data, s.Data)
	text, err := json.Marshal(fields{"connection_info": fields{"driver_volume_type": s.Type, "data": data}})
	if err != nil {
		t.Fatal(err)
	}

	return text
}

// input is that of the class. In initiatorMode node, the nodes connect with their own NVMe names.
func (s shape) input(t *testing.T) mapper.Input {
	t.Helper()
	in := input(t, s.Class, s.Block)
	if s.Class["initiatorMode"] == "node" {
		in.HostNQN, in.HostID = "", ""
	}

	return in
}

// want is what is expected of a shape, in the form of the other cases.
func (s shape) want() outcome {
	if s.Refused != "" {
		return outcome{Error: s.Refused}
	}
	return outcome{Source: s.Want, Secret: s.Secret}
}

// TestDrivers: what each driver's connections lead to. What the Secret has is shown nowhere else.
func TestDrivers(t *testing.T) {
	titles, secrets := map[string]bool{}, 0
	for _, s := range shapes(t) {
		title := s.Driver + ": " + s.What
		if titles[title] || (s.Want == nil) != (s.Refused != "") {
			t.Errorf("%s: it is there twice, or is not either wanted or refused", title)
		}
		titles[title] = true
		text := s.text(t)
		if strings.Contains(string(text), "Scrubbed") {
			secrets++
		}

		t.Run(title, func(t *testing.T) {
			connection, err := mapper.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			mapped, err := mapper.Map(connection, s.input(t))
			got := outcome{Source: &mapped.Source, Secret: mapped.Secret}
			shown := append(printed(connection, mapped, mapped.Secret), mustJSON(t, mapped.Source))
			if err != nil {
				prefix := "map " + s.Type + " connection of cinder volume " + volumeID + ": "
				got = outcome{Error: strings.TrimPrefix(err.Error(), prefix)}
				shown = append(printed(connection, mapped, err), contract.Clean(err.Error())) // the last one is the event
			}

			if got, want := asYAML(t, got), asYAML(t, s.want()); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			for _, text := range shown {
				if strings.Contains(text, "Scrubbed") {
					t.Errorf("a secret is shown: %s", text)
				}
			}
		})
	}

	if len(titles) < 60 || secrets < 20 {
		t.Errorf("%d shapes, and %d with secrets", len(titles), secrets)
	}
}

func asYAML(t *testing.T, o outcome) string {
	t.Helper()
	text, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

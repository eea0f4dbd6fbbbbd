package flow

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// TestDriversSecrets: of a connection of any driver, a whole run shows no secret in its event, its log or its
// PersistentVolume. The Secret alone has it.
func TestDriversSecrets(t *testing.T) {
	data, err := os.ReadFile("../mapper/testdata/drivers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Driver, What, Type string
		Data               map[string]any
		Class, Secret      map[string]string
		Block              bool
		Refused            string
	}
	if err := yaml.Unmarshal(data, &rows); err != nil || len(rows) < 60 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}

	for _, row := range rows {
		t.Run(row.Driver+": "+row.What, func(t *testing.T) {
			play(t, func(s *scene) {
				s.there(fake.Volume{})
				s.parameters = row.Class
				if row.Class["initiatorMode"] == "node" {
					s.properties = map[string]string{"initiators": "node-1=iqn.1994-05.com.redhat:node-1",
						"wwpns": "node-1=10000000c9000001", "wwnns": "node-1=20000000c9000001",
						"nqns": "node-1=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555"}
				}
				if row.Block {
					s.request.VolumeMode = string(corev1.PersistentVolumeBlock)
				}

				made, err := s.provision()
				event := text(err)
				if (err == nil) != (row.Refused == "") || !strings.Contains(event, row.Refused) {
					t.Errorf("ended with %v, want %s", err, row.Refused)
				}
				s.wantSecrets(min(len(row.Secret), 1))

				pv, err := json.Marshal(made)
				if err != nil {
					t.Fatal(err)
				}
				for _, shown := range []string{event, s.log.String(), string(pv)} {
					if strings.Contains(shown, "Scrubbed") {
						t.Errorf("a secret is shown: %s", shown)
					}
				}
			}, fake.WithConnection(fake.Raw(row.Type, row.Data)))
		})
	}
}

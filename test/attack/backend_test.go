package attack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/mapper"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
)

// secretMark is in every secret of the backend's answers, which no error may quote.
const secretMark = "Scrubbed"

// longest is how much of a hostile answer an error may repeat.
const longest = 1024

// TestBackend has cinder-iscsi make volumes of what a hostile backend answers.
func TestBackend(t *testing.T) {
	data := read(t, "backend")
	for _, a := range data.Cases {
		t.Run(a.Name, func(t *testing.T) {
			connection, err := filledObject(data.object(a), nil)
			if err != nil {
				t.Fatal(err)
			}
			source, err := mapBackend(connection)
			if err := a.judgeMapped(source, err); err != nil {
				t.Error(err)
			}
		})
	}
}

// mapBackend gives the volume source as its fields.
func mapBackend(connection map[string]any) (map[string]any, error) {
	text, err := json.Marshal(connection)
	if err != nil {
		return nil, err
	}
	decoded, err := mapper.Decode(text)
	if err != nil {
		return nil, err
	}
	const name = "pvc-8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11"
	values := map[string]string{"initiatorMode": "node"}
	if connection["driver_volume_type"] == "rbd" {
		values = map[string]string{"rbd": "native", "cephSecretName": "ceph", "cephSecretNamespace": "flex-provisioners"}
	}
	p, err := parameters.Parse(values)
	if err != nil {
		return nil, err
	}
	mapped, err := mapper.Map(decoded, mapper.Input{Name: name, VolumeID: "dae46dbd-d712-48fe-af72-de0872d24140", SecretNamespace: "flex-provisioners", Parameters: p})
	if err != nil {
		return nil, err
	}
	text, err = json.Marshal(mapped.Source)
	if err != nil {
		return nil, err
	}
	var source map[string]any
	return source, json.Unmarshal(text, &source)
}

func (a attempt) judgeMapped(source map[string]any, err error) error {
	_, says := a.refuser()
	switch {
	case err != nil && strings.Contains(err.Error(), secretMark):
		return fmt.Errorf("went through: the error has a secret: %w", err)
	case err != nil && len(err.Error()) > longest:
		return fmt.Errorf("went through: the error has %d bytes", len(err.Error()))
	case a.Maps != nil && err != nil:
		return fmt.Errorf("refused: %w, want %v", err, a.Maps)
	case a.Maps != nil:
		if lack := lacks(source, a.Maps); lack != "" {
			return fmt.Errorf("went through: %s", lack)
		}
		return nil
	case a.RefusedBy == "" && err != nil:
		return fmt.Errorf("refused: %w, want accepted", err)
	case a.RefusedBy != "" && err == nil:
		return fmt.Errorf("went through: %v, want refused: %s", source, says)
	case a.RefusedBy != "" && !strings.Contains(err.Error(), says):
		return fmt.Errorf("refused: %w, want: %s", err, says)
	}
	return nil
}

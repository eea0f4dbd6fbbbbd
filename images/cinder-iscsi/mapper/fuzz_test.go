package mapper_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/mapper"
)

func printed(values ...any) []string {
	var texts []string
	for _, value := range values {
		texts = append(texts, fmt.Sprint(value), fmt.Sprintf("%+v", value), fmt.Sprintf("%#v", value))
	}
	return texts
}

// What comes out of any connection is a volume that the API server would take, or an error.
func FuzzMap(f *testing.F) {
	files, err := filepath.Glob("testdata/*/connection.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, false)
	}
	ceph := map[string]string{"cephClusterID": "c", "cephSecretName": "s", "cephSecretNamespace": "n"}
	native := map[string]string{"rbd": "native", "cephSecretName": "s", "cephSecretNamespace": "n", "initiatorMode": "node"}
	inputs := map[bool]mapper.Input{false: input(f, ceph, false), true: input(f, native, true)}
	f.Fuzz(func(t *testing.T, data []byte, other bool) {
		connection, err := mapper.Decode(data)
		if err != nil {
			return
		}
		in := inputs[other]
		mapped, err := mapper.Map(connection, in)
		if err != nil {
			return
		}
		check(t, mapped, in)
	})
}

var iqnForm = regexp.MustCompile(`^iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`)

// check is the API server's validation, as far as it depends on the connection.
func check(t *testing.T, m mapper.Mapped, in mapper.Input) {
	t.Helper()
	switch s := m.Source; {
	case s.ISCSI != nil:
		checkISCSI(t, s.ISCSI, m, in)
	case s.FC != nil:
		if len(s.FC.TargetWWNs) == 0 || s.FC.Lun == nil || *s.FC.Lun < 0 || *s.FC.Lun > 255 {
			t.Errorf("%+v", s.FC)
		}
	case s.RBD != nil:
		if len(s.RBD.CephMonitors) == 0 || s.RBD.RBDImage == "" || s.RBD.RBDPool == "" {
			t.Errorf("%+v", s.RBD)
		}
	case s.CSI != nil:
		if s.CSI.Driver == "" || s.CSI.VolumeHandle == "" {
			t.Errorf("%+v", s.CSI)
		}
	default:
		t.Error("no source")
	}
}

func checkISCSI(t *testing.T, s *corev1.ISCSIPersistentVolumeSource, m mapper.Mapped, in mapper.Input) {
	t.Helper()
	for i, portal := range s.Portals {
		if portal == s.TargetPortal || portal == "" || slices.Contains(s.Portals[:i], portal) {
			t.Errorf("portals %q beside %q", s.Portals, s.TargetPortal)
		}
	}
	if s.InitiatorName != nil && len(in.Name+":"+s.TargetPortal) > 64 {
		t.Errorf("portal %q is too long", s.TargetPortal)
	}
	if !iqnForm.MatchString(s.IQN) || s.Lun < 0 || s.Lun > 255 || s.TargetPortal == "" {
		t.Errorf("%+v", s)
	}
	if (s.SessionCHAPAuth || s.DiscoveryCHAPAuth) != (s.SecretRef != nil) || (s.SecretRef != nil) != (len(m.Secret) > 0) {
		t.Errorf("%+v with %d keys in the secret", s, len(m.Secret))
	}
}

//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// Every volume source and Secret that the Cinder image maps a connection to is one that the API server takes.
func TestMappedCinderVolumesAreAccepted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(apiserver.Repo(), "images", "cinder-iscsi", "mapper", "testdata", "*", "want.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("golden mappings: %v, %v", files, err)
	}
	accepted := 0
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var want struct {
				Source *corev1.PersistentVolumeSource
				Secret map[string]string
				Error  string
			}
			if err := yaml.UnmarshalStrict(text, &want); err != nil {
				t.Fatal(err)
			}
			if want.Error != "" {
				return
			}
			checkMapping(t, *want.Source, want.Secret)
			accepted++
		})
	}
	if accepted < 30 {
		t.Errorf("%d mappings were shown to the API server, want 30 or more", accepted)
	}
}

func checkMapping(t *testing.T, source corev1.PersistentVolumeSource, secret map[string]string) {
	t.Helper()
	admin := server.Client(apiserver.Admin.Token())
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "mapped"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: source,
		},
	}
	if _, err := admin.CoreV1().PersistentVolumes().Create(t.Context(), volume, dryRun); err != nil {
		t.Error(err)
	}
	if secret == nil {
		return
	}
	chap := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mapped", Namespace: contract.ProvisionersNamespace},
		Type: "kubernetes.io/iscsi-chap", StringData: secret}
	if _, err := admin.CoreV1().Secrets(chap.Namespace).Create(t.Context(), chap, dryRun); err != nil {
		t.Error(err)
	}
}

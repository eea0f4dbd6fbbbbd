//go:build integration

package integration

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// Every volume source and Secret that the Cinder image maps a connection to is one that the API server takes.
func TestMappedCinderVolumesAreAccepted(t *testing.T) {
	cases, err := txtar.ParseFile(filepath.Join(apiserver.Repo(), "images", "cinder-iscsi", "mapper", "testdata", "cases.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for _, file := range cases.Files {
		name, mapped := strings.CutSuffix(file.Name, "/want.yaml")
		if !mapped {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var want struct {
				Source *corev1.PersistentVolumeSource
				Secret map[string]string
				Error  string
			}
			if err := yaml.UnmarshalStrict(file.Data, &want); err != nil {
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

package class

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// exportAt is the mount point of the export in provisioner pods.
const exportAt = "/export"

// hostPattern matches a name or an address. An address with colons is in brackets.
var hostPattern = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])$`)

// cutExport splits SERVER:/DIRECTORY.
func cutExport(export string) (server, directory string, err error) {
	i := strings.LastIndex(export, ":/")
	if i < 0 || !hostPattern.MatchString(export[:i]) || path.Clean(export[i+1:]) != export[i+1:] || strings.ContainsAny(export[i+1:], "\n\t") {
		return "", "", fmt.Errorf("--export %q: write SERVER:/DIRECTORY, as in 10.0.0.1:/srv/nfs", export)
	}
	return strings.Trim(export[:i], "[]"), export[i+1:], nil
}

// exportName is the name of the volume and the claim of the export.
func (c Class) exportName() string { return c.Name + "-export" }

// exportObjects are the volume and the claim by which provisioner pods mount the export. The volume is reserved for this claim, and is
// retained when the claim is deleted.
func (c Class) exportObjects() ([]Object, error) {
	server, directory, err := cutExport(c.Export)
	if err != nil {
		return nil, err
	}
	none, name, modes := "", c.exportName(), []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")} // required, but without effect for an export
	return []Object{
		{"persistentvolume", "", name, &corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{Capacity: size, AccessModes: modes,
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				ClaimRef:                      &corev1.ObjectReference{Namespace: c.Place.Namespace, Name: name},
				PersistentVolumeSource:        corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: server, Path: directory}}}},
			"/api/v1/persistentvolumes/" + name},
		{"persistentvolumeclaim", c.Place.Namespace, name, &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: metav1.ObjectMeta{Namespace: c.Place.Namespace, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &none,
				VolumeName: name, AccessModes: modes, Resources: corev1.VolumeResourceRequirements{Requests: size}}},
			"/api/v1/namespaces/" + c.Place.Namespace + "/persistentvolumeclaims/" + name},
	}, nil
}

package podspec

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// tokenSeconds is the lifetime of the pod's token. It must not be 3607: the API server extends tokens of that lifetime
// to a year.
const tokenSeconds = int64(900)

// volumesOf lists what the pod mounts: its token, its request, a small /tmp since the root file system is read-only,
// and what the ConfigMap names.
func volumesOf(a Attempt, c Cluster) (volumes []corev1.Volume, mounts []corev1.VolumeMount) {
	add := func(name string, source corev1.VolumeSource, mount corev1.VolumeMount) {
		mount.Name = name
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: source})
		mounts = append(mounts, mount)
	}

	add("identity", identityVolume(), corev1.VolumeMount{MountPath: contract.TokenDir, ReadOnly: true})
	add("request", requestVolume(a), corev1.VolumeMount{MountPath: contract.RequestDir, ReadOnly: true})

	tmpLimit := resource.MustParse("16Mi")
	tmp := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &tmpLimit}}
	add("tmp", tmp, corev1.VolumeMount{MountPath: "/tmp"})
	if needsFlexctl(a) {
		add("flexctl", flexctlVolume(c), corev1.VolumeMount{MountPath: contract.BinDir, ReadOnly: true})
	}

	for i, name := range a.Config.Secrets {
		mode := int32(0o444)
		secret := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: &mode}}
		add(numbered("secret", i), secret,
			corev1.VolumeMount{MountPath: contract.SecretsDir + "/" + name, ReadOnly: true})
	}

	for i, h := range a.Config.HostPaths {
		volume, mount := hostVolume(h)
		add(numbered("host", i), volume, mount)
	}

	for i, m := range a.Config.MountClaims {
		add(numbered("claim", i), claimSource(m.Claim), corev1.VolumeMount{MountPath: m.Path})
	}

	for i, d := range a.Config.Devices { // devicesOf gives them to the container
		volumes = append(volumes, corev1.Volume{Name: numbered("device", i), VolumeSource: claimSource(d.Claim)})
	}

	return volumes, mounts
}

func claimSource(claim string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
}

// mounting is the configuration with the mounts of the request, which of a delete or expansion are those of the
// volume's provision. Nil mounts are not known, and leave those of the configuration.
func mounting(config *configmaps.Config, mounts []contract.Mount) *configmaps.Config {
	if mounts == nil {
		return config
	}

	with := *config
	with.HostPaths, with.MountClaims, with.Devices = nil, nil, nil
	for _, m := range mounts {
		switch {
		case m.Claim == "":
			with.HostPaths = append(with.HostPaths, configmaps.HostPath{Path: m.Path, ReadOnly: m.ReadOnly})
		case m.Device:
			with.Devices = append(with.Devices, configmaps.ClaimMount{Claim: m.Claim, Path: m.Path})
		default:
			with.MountClaims = append(with.MountClaims, configmaps.ClaimMount{Claim: m.Claim, Path: m.Path})
		}
	}

	return &with
}

// hostVolume has the kubelet create a missing directory, unless it is mounted read-only. Mounts below a read-only
// directory are read-only too, where the node supports that.
func hostVolume(h configmaps.HostPath) (corev1.VolumeSource, corev1.VolumeMount) {
	kind, mount := corev1.HostPathDirectoryOrCreate, corev1.VolumeMount{MountPath: h.Path}
	if h.ReadOnly {
		below := corev1.RecursiveReadOnlyIfPossible
		kind, mount.ReadOnly, mount.RecursiveReadOnly = corev1.HostPathDirectory, true, &below
	}

	return corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: h.Path, Type: &kind}}, mount
}

func numbered(name string, i int) string { return name + "-" + strconv.Itoa(i) }

// identityVolume has the token, ca.crt and namespace, as Kubernetes clients expect them at contract.TokenDir.
func identityVolume() corev1.VolumeSource {
	seconds := tokenSeconds
	namespace := field("namespace", "metadata.namespace", nil)

	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
			Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
		}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{namespace}}},
	}}}
}

func requestVolume(a Attempt) corev1.VolumeSource {
	files := []corev1.DownwardAPIVolumeFile{field("request.json", annotationPath(contract.AnnRequest), nil)}
	if a.Volume != nil {
		files = append(files, field("volume.yaml", annotationPath(contract.AnnVolume), nil))
	}

	if inline(a) {
		executable := int32(0o555)
		files = append(files, field("script", annotationPath(contract.AnnScript), &executable))
	}

	return corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: files}}
}

func annotationPath(name string) string { return "metadata.annotations['" + name + "']" }

func field(path, fieldPath string, mode *int32) corev1.DownwardAPIVolumeFile {
	ref := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: fieldPath}

	return corev1.DownwardAPIVolumeFile{Path: path, Mode: mode, FieldRef: ref}
}

func flexctlVolume(c Cluster) corev1.VolumeSource {
	if c.ImageVolumes {
		image := &corev1.ImageVolumeSource{Reference: c.FlexctlImage, PullPolicy: corev1.PullIfNotPresent}
		return corev1.VolumeSource{Image: image}
	}

	return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
}

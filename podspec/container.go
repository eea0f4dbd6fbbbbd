package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// defaultUser is the user of provisioners whose ConfigMap sets none: "nonroot" of the distroless images.
const defaultUser = int64(65532)

func inline(a Attempt) bool { return a.Config.Provision != "" }

// needsFlexctl reports whether flexctl has to be put into the pod.
func needsFlexctl(a Attempt) bool { return inline(a) && !a.Config.FlexctlInImage }

func script(a Attempt) string {
	switch a.Request.Operation {
	case contract.Delete:
		return a.Config.Delete
	case contract.Expand:
		return a.Config.Expand
	case contract.Snapshot:
		return a.Config.Snapshot
	case contract.DeleteSnapshot:
		return a.Config.DeleteSnapshot
	case contract.Attach:
		return a.Config.Attach
	case contract.Detach:
		return a.Config.Detach
	}

	return a.Config.Provision
}

// ScriptCommand is the command that runs the script at contract.ScriptFile. A script with a shebang is executed, so
// that it can use any interpreter of the image. Another one is run by sh.
func ScriptCommand(script string) []string {
	if strings.HasPrefix(script, "#!") {
		return []string{contract.ScriptFile}
	}

	return []string{"/bin/sh", contract.ScriptFile}
}

// noImageVolumes says what is wrong with a node whose pods lack flexctl, which is a volume of an image there.
const noImageVolumes = "the container runtime of this node does not mount images as volumes: start the dispatcher " +
	"with --flexctl-mount=copy"

// commandOf is nil without inline scripts: the image's entrypoint runs then.
func commandOf(a Attempt, c Cluster) []string {
	if !inline(a) {
		return nil
	}

	run := ScriptCommand(script(a))
	if !needsFlexctl(a) {
		return run
	}

	script := "export PATH=\"$PATH:" + contract.BinDir + "\"; exec " + strings.Join(run, " ")
	if c.ImageVolumes {
		// Some runtimes mount an empty directory in place of an image. Nothing was made by then.
		script = fmt.Sprintf("[ -e %s/flexctl ] || { echo '%s' >%s; exit %d; }; %s",
			contract.BinDir, noImageVolumes, contract.TerminationFile, contract.ExitRefused, script)
	}

	return []string{"/bin/sh", "-c", escape(script)}
}

// envOf lists the fixed names first, then properties and parameters by name. The kubelet expands $(NAME) in values. So
// every $ is doubled, and nothing that a user or an administrator wrote is expanded.
func envOf(a Attempt, c Cluster) []corev1.EnvVar {
	var env []corev1.EnvVar
	for _, v := range a.Request.Env(c.KubeAPI) {
		env = append(env, corev1.EnvVar{Name: v.Name, Value: escape(v.Value)})
	}

	env = append(env, corev1.EnvVar{Name: "FLEX_NODE", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"}}})

	extra := map[string]string{}
	for _, from := range []map[string]string{a.Request.Parameters, a.Request.Properties} {
		for key, value := range from {
			if name := contract.EnvName(key); name != "" {
				extra[name] = value
			}
		}
	}

	for _, name := range slices.Sorted(maps.Keys(extra)) {
		env = append(env, corev1.EnvVar{Name: name, Value: escape(extra[name])})
	}

	return env
}

func escape(value string) string { return strings.ReplaceAll(value, "$", "$$") }

// userOf is nil where the cluster or the image chooses the user.
func userOf(config *configmaps.Config) *int64 {
	if config.RunAsUser != nil || config.UserOfNamespace {
		return config.RunAsUser
	}

	user := defaultUser

	return &user
}

// podSecurity meets Pod Security "restricted" for every user but root. It sets no fsGroup: the kubelet would walk whole
// volumes and change the owners of files, and the files of the pod's own volumes are readable without it.
func podSecurity(config *configmaps.Config) *corev1.PodSecurityContext {
	user := userOf(config)
	nonRoot := !config.Root()

	security := &corev1.PodSecurityContext{
		RunAsUser:      user,
		RunAsGroup:     user,
		RunAsNonRoot:   &nonRoot,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if config.SELinuxLevel != "" {
		security.SELinuxOptions = &corev1.SELinuxOptions{Level: config.SELinuxLevel}
	}

	return security
}

// restricted drops every capability.
func restricted() *corev1.SecurityContext {
	no, yes := false, true

	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no,
		ReadOnlyRootFilesystem:   &yes,
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// rootCapabilities are the capabilities that root needs to remove files of other users. Classes run as root for that.
var rootCapabilities = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER"}

// containerSecurity adds the privileges of the class to restricted. A privileged container has every capability, and a
// list of some would take the others away.
func containerSecurity(config *configmaps.Config) *corev1.SecurityContext {
	security := restricted()
	if config.Privileged {
		yes := true
		security.Privileged, security.AllowPrivilegeEscalation, security.Capabilities = &yes, nil, nil

		return security
	}

	if config.Root() {
		security.Capabilities.Add = slices.Clone(rootCapabilities)
	}

	for _, capability := range config.Capabilities {
		if !slices.Contains(security.Capabilities.Add, capability) {
			security.Capabilities.Add = append(security.Capabilities.Add, capability)
		}
	}

	return security
}

// devicesOf lists the claims that the container gets as devices.
func devicesOf(config *configmaps.Config) []corev1.VolumeDevice {
	var devices []corev1.VolumeDevice
	for i, d := range config.Devices {
		devices = append(devices, corev1.VolumeDevice{Name: numbered("device", i), DevicePath: d.Path})
	}

	return devices
}

// flexctlCopier is the init container that copies flexctl to where the script finds it, for nodes that cannot mount an
// image as a volume. It has none of the class's privileges but the pod's user.
func flexctlCopier(c Cluster) corev1.Container {
	return corev1.Container{
		Name:            "flexctl",
		Image:           c.FlexctlImage,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/flexctl", "install", contract.BinDir},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("10m"),
				corev1.ResourceMemory: resource.MustParse("32Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
		},
		VolumeMounts:    []corev1.VolumeMount{{Name: "flexctl", MountPath: contract.BinDir}},
		SecurityContext: restricted(),
	}
}

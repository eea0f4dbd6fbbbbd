package podspec

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
)

// defaultUser is who provisioners run as unless the ConfigMap says otherwise: "nonroot" of the distroless images.
const defaultUser = int64(65532)

func inline(a Attempt) bool { return a.Config.Provision != "" }

// needsFlexctl says that flexctl has to be put into the pod.
func needsFlexctl(a Attempt) bool { return inline(a) && !a.Config.FlexctlInImage }

func script(a Attempt) string {
	switch a.Request.Operation {
	case contract.Delete:
		return a.Config.Delete
	case contract.Expand:
		return a.Config.Expand
	}
	return a.Config.Provision
}

// ScriptCommand runs the script at contract.ScriptFile. One with a shebang is executed, so that it may be written in
// anything that the image has; one without is given to sh.
func ScriptCommand(script string) []string {
	if strings.HasPrefix(script, "#!") {
		return []string{contract.ScriptFile}
	}
	return []string{"/bin/sh", contract.ScriptFile}
}

// commandOf is nil for images, which bring their own entrypoint.
func commandOf(a Attempt) []string {
	if !inline(a) {
		return nil
	}
	run := ScriptCommand(script(a))
	if !needsFlexctl(a) {
		return run
	}
	return []string{"/bin/sh", "-c", escape("export PATH=\"$PATH:" + contract.BinDir + "\"; exec " + strings.Join(run, " "))}
}

// envOf lists the fixed names first, then properties and parameters by name. The kubelet expands $(NAME) in values,
// those that come from Secrets included, so every $ is doubled: nothing that a user or an administrator wrote is ever
// expanded.
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

func userOf(config *configmaps.Config) int64 {
	if config.RunAsUser != nil {
		return *config.RunAsUser
	}
	return defaultUser
}

// podSecurity meets Pod Security "restricted" for every user but root. There is no fsGroup: it would make the kubelet
// walk and change the ownership of whole volumes, and files of the pod's own volumes are readable without it.
func podSecurity(config *configmaps.Config) *corev1.PodSecurityContext {
	user := userOf(config)
	nonRoot := user != 0
	return &corev1.PodSecurityContext{
		RunAsUser:      &user,
		RunAsGroup:     &user,
		RunAsNonRoot:   &nonRoot,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// containerSecurity drops every capability. Root gets back the three without which it could not remove files of other
// users, which is what a class asks for that runs as root; "baseline" allows them.
func containerSecurity(config *configmaps.Config) *corev1.SecurityContext {
	no, yes := false, true
	security := &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no,
		ReadOnlyRootFilesystem:   &yes,
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if userOf(config) == 0 {
		security.Capabilities.Add = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER"}
	}
	return security
}

// flexctlCopier puts flexctl where the script finds it, on clusters whose nodes cannot mount an image as a volume.
func flexctlCopier(config *configmaps.Config, c Cluster) corev1.Container {
	return corev1.Container{
		Name:            "flexctl",
		Image:           c.FlexctlImage,
		ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{"/flexctl", "install", contract.BinDir},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
		},
		VolumeMounts:    []corev1.VolumeMount{{Name: "flexctl", MountPath: contract.BinDir}},
		SecurityContext: containerSecurity(config),
	}
}

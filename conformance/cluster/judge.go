package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/conformance"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// configOf is the Config of a class among all ConfigMaps, or else the faults.
func configOf(all []corev1.ConfigMap, class *storagev1.StorageClass) (*configmaps.Config, []string) {
	served, wrong := configmaps.ServedAs(class.Name, class.Parameters)
	if len(wrong) > 0 {
		return nil, []string{fmt.Sprintf("StorageClass %s: %v", class.Name, wrong.ToAggregate())}
	}
	mine := slices.DeleteFunc(slices.Clone(all), func(cm corev1.ConfigMap) bool { return configmaps.ClassName(&cm) != served })
	var names, faults []string
	for _, cm := range mine {
		names = append(names, cm.Name)
		if plugin := configmaps.PluginName(&cm); plugin != class.Provisioner {
			faults = append(faults, fmt.Sprintf("ConfigMap %s has plugin-name %q, and the StorageClass the provisioner %q", cm.Name, plugin, class.Provisioner))
		}
	}
	switch {
	case len(mine) == 0:
		return nil, []string{fmt.Sprintf("there is no ConfigMap for class %s", served)}
	case len(mine) > 1:
		return nil, []string{fmt.Sprintf("there are several ConfigMaps for class %s: ", served) + strings.Join(names, ", ")}
	}
	config, errs := configmaps.Parse(&mine[0])
	for _, err := range errs {
		faults = append(faults, fmt.Sprintf("ConfigMap %s: %s", mine[0].Name, err))
	}
	return config, faults
}

// accessMode is the first access mode of the class that allows pods to write.
func accessMode(config *configmaps.Config) corev1.PersistentVolumeAccessMode {
	if config != nil {
		for _, mode := range config.AccessModes {
			if mode != corev1.ReadOnlyMany {
				return mode
			}
		}
	}
	return corev1.ReadWriteOnce
}

// volumeFaults lists the differences of a volume from its claim and class. events are those on the claim.
func volumeFaults(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, class *storagev1.StorageClass, events []corev1.Event) []string {
	faults := podspec.Misfits(volume, claim)
	if want := podspec.VolumeName(string(claim.UID)); volume.Name != want {
		faults = append(faults, fmt.Sprintf("it is called %s, not %s", volume.Name, want))
	}
	if asked, made := claim.Spec.Resources.Requests[corev1.ResourceStorage], volume.Spec.Capacity[corev1.ResourceStorage]; made.Cmp(asked) < 0 {
		faults = append(faults, fmt.Sprintf("it has %s, less than the %s that the claim asks for", made.String(), asked.String()))
	}
	if mending := podspec.RepairOf(volume, class.ReclaimPolicy, class.Provisioner, nil, ""); mending != nil {
		faults = append(faults, mending.Faults...)
		if mending.Kept != "" {
			faults = append(faults, mending.Kept)
		}
	}
	for _, e := range events {
		if e.InvolvedObject.UID == claim.UID && (e.Reason == "VolumeMended" || e.Reason == "VolumeDoesNotFit") {
			faults = append(faults, e.Message)
		}
	}
	return faults
}

// privileges lists the privileges of a provisioner pod that its class does not ask for.
func privileges(pod *corev1.Pod, config *configmaps.Config) []string {
	var faults []string
	yes := func(value *bool) bool { return value != nil && *value }
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		sc := c.SecurityContext
		if sc == nil {
			faults = append(faults, c.Name+" has no securityContext")
			continue
		}
		user, nonRoot := sc.RunAsUser, sc.RunAsNonRoot
		if of := pod.Spec.SecurityContext; of != nil {
			user, nonRoot = cmp.Or(user, of.RunAsUser), cmp.Or(nonRoot, of.RunAsNonRoot)
		}
		privileged := config.Privileged && c.Name == podspec.ContainerName
		for _, fault := range []struct {
			is   bool
			text string
		}{
			{!yes(sc.ReadOnlyRootFilesystem), "can write to its root file system"},
			{!config.Root() && (user == nil && !yes(nonRoot) || user != nil && *user == 0), "runs as root"},
			{!privileged && yes(sc.Privileged), "is privileged"},
			{!privileged && (sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation), "may gain privileges"},
			{!privileged && (sc.Capabilities == nil || !slices.Contains(sc.Capabilities.Drop, "ALL")), "keeps capabilities"},
		} {
			if fault.is {
				faults = append(faults, c.Name+" "+fault.text)
			}
		}
	}
	return faults
}

// showingSecrets lists the places of texts that show a secret.
func showingSecrets(texts map[string]string, secrets []string) []string {
	var where []string
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if slices.ContainsFunc(secrets, func(secret string) bool { return conformance.Shows(texts[name], secret) }) {
			where = append(where, name)
		}
	}
	return where
}

// lastWarning is the latest warning, empty if there is none.
func lastWarning(events []corev1.Event) string {
	at := func(e corev1.Event) time.Time {
		for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time} {
			if !t.IsZero() {
				return t
			}
		}
		return e.CreationTimestamp.Time
	}
	var last *corev1.Event
	for i, e := range events {
		if e.Type == corev1.EventTypeWarning && (last == nil || !at(e).Before(at(*last))) {
			last = &events[i]
		}
	}
	if last == nil {
		return ""
	}
	return fmt.Sprintf("; the last warning on %s %s is %s: %s", last.InvolvedObject.Kind, last.InvolvedObject.Name, last.Reason, last.Message)
}

// shared reports whether two volumes have the same storage.
func shared(a, b *corev1.PersistentVolume) bool {
	return reflect.DeepEqual(a.Spec.PersistentVolumeSource, b.Spec.PersistentVolumeSource)
}

// onDevice reports whether a volume is a file system on a device, which Kubernetes made and does not expand.
func onDevice(v *corev1.PersistentVolume) bool {
	return podspec.ModeOf(v.Spec.VolumeMode) == corev1.PersistentVolumeFilesystem && (v.Spec.ISCSI != nil || v.Spec.FC != nil)
}

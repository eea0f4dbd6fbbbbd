package inspect

import (
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// Patterns of the admission policy flex-pv-by-provisioner-pod, copied literally. A volume that a pod may not create is not adopted either.
const (
	formPath      = `^/[^[:cntrl:]]*$`
	formHost      = `^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])$`
	formAddress   = `^[0-9A-Fa-f:.]{2,45}$`
	formPortal    = `^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?$`
	formIQN       = `^(iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9][A-Za-z0-9.:_-]{0,210}|eui\.[0-9A-Fa-f]{16}|naa\.[0-9A-Fa-f]{16}([0-9A-Fa-f]{16})?)$`
	formInterface = `^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`
	formWWN       = `^[0-9A-Fa-f]{16}$`
	formWWID      = `^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`
	formFSType    = `^[a-z][a-z0-9]{0,15}$`
	formSecret    = `^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`
)

var forms = map[string]*regexp.Regexp{}

func init() {
	for _, form := range []string{formPath, formHost, formAddress, formPortal, formIQN, formInterface, formWWN, formWWID, formFSType, formSecret} {
		forms[form] = regexp.MustCompile(form)
	}
}

// malformedFields lists the fields of a volume's source that do not match the policy's patterns.
func malformedFields(v *corev1.PersistentVolume) (faults []error) {
	check := func(field, value, form string, limit int) {
		if utf8.RuneCountInString(value) > limit || !forms[form].MatchString(value) {
			faults = append(faults, fmt.Errorf("its spec.%s %.64q has not the form that policy flex-pv-by-provisioner-pod asks for", field, value))
		}
	}
	optional := func(field, value, form string, limit int) {
		if value != "" {
			check(field, value, form, limit)
		}
	}
	list := func(field string, values []string, form string) {
		if len(values) > 64 {
			faults = append(faults, fmt.Errorf("its spec.%s has %d items: the policy allows 64", field, len(values)))
			return
		}
		for _, value := range values {
			check(field, value, form, 4096)
		}
	}
	switch s := v.Spec.PersistentVolumeSource; {
	case s.NFS != nil:
		if !forms[formAddress].MatchString(s.NFS.Server) {
			check("nfs.server", s.NFS.Server, formHost, 4096)
		}
		check("nfs.path", s.NFS.Path, formPath, 4096)
	case s.HostPath != nil:
		check("hostPath.path", s.HostPath.Path, formPath, 4096)
		if t := s.HostPath.Type; t != nil && !slices.Contains([]corev1.HostPathType{"", corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate}, *t) {
			faults = append(faults, fmt.Errorf("its spec.hostPath.type %.64q is none of Directory and DirectoryOrCreate", *t))
		}
	case s.Local != nil:
		check("local.path", s.Local.Path, formPath, 4096)
		if s.Local.FSType != nil {
			check("local.fsType", *s.Local.FSType, formFSType, 16)
		}
	case s.ISCSI != nil:
		check("iscsi.targetPortal", s.ISCSI.TargetPortal, formPortal, 4096)
		list("iscsi.portals", s.ISCSI.Portals, formPortal)
		check("iscsi.iqn", s.ISCSI.IQN, formIQN, 223)
		if s.ISCSI.InitiatorName != nil {
			check("iscsi.initiatorName", *s.ISCSI.InitiatorName, formIQN, 223)
		}
		optional("iscsi.iscsiInterface", s.ISCSI.ISCSIInterface, formInterface, 64)
		optional("iscsi.fsType", s.ISCSI.FSType, formFSType, 16)
		if s.ISCSI.SecretRef != nil {
			check("iscsi.secretRef.name", s.ISCSI.SecretRef.Name, formSecret, 253)
		}
	case s.FC != nil:
		list("fc.targetWWNs", s.FC.TargetWWNs, formWWN)
		list("fc.wwids", s.FC.WWIDs, formWWID)
		optional("fc.fsType", s.FC.FSType, formFSType, 16)
	}
	return faults
}

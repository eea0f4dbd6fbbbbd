package bare

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Filling has what a provisioner sets in its volume, without the fields of the source.
type Filling struct {
	// Has lists the names of sources in the skeleton, which should have none. Sources lists those that the provisioner sets.
	Has, Sources []string
	// Requested is the claim's size. Capacity is the real size, or zero if it is the requested one.
	Requested, Capacity resource.Quantity
	MountOptions        []string
	Annotations         map[string]string
}

// Check returns all faults, each with its field. Only the API server checks the fields of the volume source.
func (f Filling) Check() error {
	return slices.Concat(checkSource(f.Has, f.Sources), checkCapacity(f.Requested, f.Capacity), checkMountOptions(f.MountOptions), checkAnnotations(f.Annotations)).ToAggregate()
}

// fsTypeForm matches names of file systems, which the kubelet passes to mount.
var fsTypeForm = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// FSType is the file system of the class's parameter csi.storage.k8s.io/fstype, empty where it has none or the volume is a raw device.
func FSType(request contract.Request) (string, error) {
	name := request.Parameters[contract.ParameterFSType]
	if name == "" || request.VolumeMode == "Block" {
		return "", nil
	}
	if !fsTypeForm.MatchString(name) {
		return "", Refuse(fmt.Errorf("parameter %s of class %s is %q: it must be the name of a file system, such as ext4 or xfs", contract.ParameterFSType, request.StorageClass, name))
	}
	return name, nil
}

func checkSource(has, given []string) field.ErrorList {
	path := field.NewPath("volume source")
	switch {
	case len(has) > 0:
		return field.ErrorList{field.Forbidden(path, "the skeleton has one already: "+strings.Join(has, ", "))}
	case len(given) == 0:
		return field.ErrorList{field.Required(path, "name exactly one, for example nfs or csi")}
	case len(given) > 1:
		return field.ErrorList{field.Invalid(path, strings.Join(given, ", "), "a volume has exactly one")}
	}
	return nil
}

func checkCapacity(requested, made resource.Quantity) field.ErrorList {
	if made.IsZero() || made.Cmp(requested) >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("capacity"), made.String(),
		"less than the "+requested.String()+" that the claim asks for would never bind")}
}

func checkMountOptions(options []string) field.ErrorList {
	var errs field.ErrorList
	for i, option := range options {
		if option == "" || strings.ContainsFunc(option, unicode.IsControl) {
			errs = append(errs, field.Invalid(field.NewPath("mountOptions").Index(i), option,
				"must not be empty or hold control characters"))
		}
	}
	return errs
}

// reservedDomains are the domains of annotations that Kubernetes or the dispatcher acts on: mount options, a group for the pod, who deletes
// the volume, where its storage is.
var reservedDomains = []string{"kubernetes.io", "k8s.io", "flex-provisioner.io"}

func checkAnnotations(annotations map[string]string) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		path := field.NewPath("annotations").Key(key)
		for _, fault := range content.IsLabelKey(strings.ToLower(key)) {
			errs = append(errs, field.Invalid(path, key, fault))
		}
		domain, _, found := strings.Cut(key, "/")
		if !found {
			errs = append(errs, field.Invalid(path, key, "must begin with a domain of yours, such as example.com/"))
		}
		for _, reserved := range reservedDomains {
			if lower := strings.ToLower(domain); found && (lower == reserved || strings.HasSuffix(lower, "."+reserved)) {
				errs = append(errs, field.Forbidden(path, reserved+" is reserved; use a domain of yours, such as example.com/"))
			}
		}
	}
	return errs
}

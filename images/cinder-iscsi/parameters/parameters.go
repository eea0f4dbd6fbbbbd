package parameters

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Initiator modes: with which name nodes log in to the storage.
const (
	// PerVolume gives each volume its own initiator name, which every node uses for it.
	PerVolume = "per-volume"
	// Fixed is one name for all volumes of the class.
	Fixed = "fixed"
	// Node is for the nodes' own names. The volume is exported to all nodes when it is made.
	Node = "node"
	// Attach is for the nodes' own names as well. The volume is exported to a node when Kubernetes attaches it there, and
	// flex-node connects.
	Attach = "attach"
)

// Ways to mount Ceph images.
const (
	RBDCephCSI = "ceph-csi"
	RBDNative  = "native"
)

// Parameters are the parameters of a StorageClass, complete with defaults.
type Parameters struct {
	// Type is Cinder's volume type by name or ID, Availability is its availability zone. If they are empty, Cinder chooses.
	Type, Availability string
	// FSType is the file system for claims of volumeMode Filesystem.
	FSType string
	// InitiatorMode is PerVolume, Fixed, Node or Attach; Initiator is the name for Fixed.
	InitiatorMode, Initiator string
	// ConnectorIP is the address of the connecting host, for Cinder.
	ConnectorIP string
	Multipath   bool
	// SmartClone reports whether claims of the class may be clones.
	SmartClone bool
	// Metadata is added to each Cinder volume.
	Metadata map[string]string
	// RBD is RBDCephCSI or RBDNative.
	RBD                                              string
	CephCSIDriver, CephClusterID, CephImageFeatures  string
	CephMounter, CephSecretName, CephSecretNamespace string
	NVMeCSIDriver                                    string
	// SameHost and DifferentHost are IDs of Cinder volumes; SchedulerQuery is JSON.
	SameHost, DifferentHost []string
	SchedulerQuery          string
}

// parameter is a key of the StorageClass.
type parameter struct {
	name, meaning, form, defaultValue string
	read                              func(p *Parameters, value string, at *field.Path) *field.Error
}

// fsType has a second name, which other provisioners support too: contract.ParameterFSType.
const fsType = "fsType"

var knownParameters = []parameter{
	{"type", "Cinder's volume type, by name or ID", "text, at most 255 characters", "", line(func(p *Parameters) *string { return &p.Type })},
	{"availability", "Cinder's availability zone", "text, at most 255 characters", "", line(func(p *Parameters) *string { return &p.Availability })},
	{fsType, "the file system that the kubelet makes for claims of volumeMode Filesystem; also as `csi.storage.k8s.io/fstype`", "`ext4`, `ext3`, `xfs` or `btrfs`", "ext4",
		oneOf(func(p *Parameters) *string { return &p.FSType }, "ext4", "ext3", "xfs", "btrfs")},
	{"initiatorMode", "who connects: a name for each volume, one for all, or the nodes' own, before or when it is attached",
		"`per-volume`, `fixed`, `node` or `attach`", PerVolume,
		oneOf(func(p *Parameters) *string { return &p.InitiatorMode }, PerVolume, Fixed, Node, Attach)},
	{"initiator", "the name for initiatorMode fixed", "IQN", "", matching(func(p *Parameters) *string { return &p.Initiator }, isIQN, "must be an IQN such as iqn.2026-01.example.com:cluster-1")},
	{"connectorIP", "the address of the connecting host, for backends that ask for it", "IP address", "127.0.0.1", address(func(p *Parameters) *string { return &p.ConnectorIP })},
	{"multipath", "use all portals of the target", "true or false", "false", boolean(func(p *Parameters) *bool { return &p.Multipath })},
	{"smartclone", "allow clones; only for backends that clone without copying", "true or false", "false", boolean(func(p *Parameters) *bool { return &p.SmartClone })},
	{"metadata", "metadata for each Cinder volume", "`k=v,k=v`", "", readMetadata},
	{"rbd", "how Ceph images are mounted; native only up to Kubernetes 1.30", "`ceph-csi` or `native`", RBDCephCSI,
		oneOf(func(p *Parameters) *string { return &p.RBD }, RBDCephCSI, RBDNative)},
	{"cephCSIDriver", "the name of the ceph-csi driver", "domain name", "rbd.csi.ceph.com", domain(func(p *Parameters) *string { return &p.CephCSIDriver })},
	{"cephClusterID", "the cluster as ceph-csi knows it; required for ceph-csi", "text, at most 255 characters", "", line(func(p *Parameters) *string { return &p.CephClusterID })},
	{"cephImageFeatures", "the features that ceph-csi maps the image with", "names between commas", "layering", line(func(p *Parameters) *string { return &p.CephImageFeatures })},
	{"cephMounter", "ceph-csi's mounter", "`rbd` or `rbd-nbd`", "", oneOf(func(p *Parameters) *string { return &p.CephMounter }, "rbd", "rbd-nbd")},
	{"cephSecretName", "the Secret with Ceph's key, which Cinder does not tell", "name", "", domain(func(p *Parameters) *string { return &p.CephSecretName })},
	{"cephSecretNamespace", "its namespace", "name", "", domain(func(p *Parameters) *string { return &p.CephSecretNamespace })},
	{"nvmeCSIDriver", "the name of csi-driver-nvmf", "domain name", "csi.nvmf.com", domain(func(p *Parameters) *string { return &p.NVMeCSIDriver })},
	{"sameHost", "scheduler hint: the backend of all these Cinder volumes", "IDs between commas", "", ids(func(p *Parameters) *[]string { return &p.SameHost })},
	{"differentHost", "scheduler hint: a backend of none of these Cinder volumes", "IDs between commas", "", ids(func(p *Parameters) *[]string { return &p.DifferentHost })},
	{"schedulerQuery", "scheduler hint: a query for Cinder's JsonFilter", "JSON", "", query},
}

// Parse reads the parameters of a StorageClass. The error has every fault, in the order of the documentation.
func Parse(values map[string]string) (Parameters, error) {
	at := field.NewPath("parameters")
	var p Parameters
	var errs field.ErrorList
	if own, standard := values[fsType], values[contract.ParameterFSType]; own != "" && standard != "" && own != standard {
		errs = append(errs, field.Invalid(at.Key(fsType), own, fmt.Sprintf("differs from %s, which is %q; keep one", contract.ParameterFSType, standard)))
	}
	for _, k := range knownParameters {
		name := k.name
		if name == fsType && values[contract.ParameterFSType] != "" {
			name = contract.ParameterFSType
		}
		value, present := values[name]
		if !present {
			value = k.defaultValue
		}
		if value == "" && !present {
			continue
		}
		if err := k.read(&p, value, at.Key(name)); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, unknown(values, names(), at)...)
	errs = append(errs, p.check(values, at)...)
	if len(errs) > 0 {
		return Parameters{}, errs.ToAggregate()
	}
	return p, nil
}

// Known returns only the parameters that Parse knows. A delete has the parameters of its provision, which may have run by another version
// of the image.
func Known(values map[string]string) map[string]string {
	out := maps.Clone(values)
	maps.DeleteFunc(out, func(name, _ string) bool { return !slices.Contains(names(), name) && name != contract.ParameterFSType })
	return out
}

func names() []string {
	var out []string
	for _, k := range knownParameters {
		out = append(out, k.name)
	}
	return out
}

// check refuses parameters that do not go together.
func (p Parameters) check(values map[string]string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range notAttached {
		if _, present := values[name]; present && p.InitiatorMode == Attach {
			errs = append(errs, field.Forbidden(at.Key(name),
				"it means nothing with initiatorMode attach: flex-node attaches iSCSI, by all paths"))
		}
	}
	if p.InitiatorMode == Attach && p.FSType != "ext4" && p.FSType != "xfs" && p.FSType != "" {
		errs = append(errs, field.NotSupported(at.Key(fsType), p.FSType, []string{"ext4", "xfs"}))
	}
	switch {
	case p.InitiatorMode == Fixed && p.Initiator == "":
		errs = append(errs, field.Required(at.Key("initiator"), "initiatorMode fixed needs the name"))
	case p.InitiatorMode != Fixed && p.Initiator != "":
		errs = append(errs, field.Forbidden(at.Key("initiator"), "it means something only with initiatorMode fixed"))
	}
	if (p.CephSecretName == "") != (p.CephSecretNamespace == "") {
		errs = append(errs, field.Required(at.Key("cephSecretNamespace"), "cephSecretName and cephSecretNamespace are given both or not at all"))
	}
	return errs
}

// notAttached are the parameters that say how a node connects. With Attach, the node and Cinder say it.
var notAttached = []string{"connectorIP", "multipath", "rbd", "cephCSIDriver", "cephClusterID", "cephImageFeatures",
	"cephMounter", "cephSecretName", "cephSecretNamespace", "nvmeCSIDriver"}

func unknown(values map[string]string, names []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(names, name) && !strings.Contains(name, "/") { // a name with a prefix is for others
			errs = append(errs, field.Forbidden(at.Key(name), "is not known; known are "+strings.Join(names, ", ")))
		}
	}
	return errs
}

var (
	iqnForm  = regexp.MustCompile(`^iqn\.\d{4}-\d{2}\.[a-z0-9][a-z0-9.-]{0,99}:[a-z0-9][a-z0-9.:-]{0,99}$`)
	uuidForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	keyForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/ -]{0,254}$`)
)

// isIQN reports whether the value is a name that the mappers accept, in lower case, as most arrays store it.
func isIQN(value string) bool {
	return iqnForm.MatchString(value) && form.ISCSIName("", value) == nil
}

type reader = func(p *Parameters, value string, at *field.Path) *field.Error

func line(into func(*Parameters) *string) reader {
	return func(p *Parameters, value string, at *field.Path) *field.Error {
		if value == "" || len(value) > 255 || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return field.Invalid(at, value, "must be one line of 1 to 255 characters; leave it out for the default")
		}
		*into(p) = value
		return nil
	}
}

func oneOf(into func(*Parameters) *string, values ...string) reader {
	return func(p *Parameters, value string, at *field.Path) *field.Error {
		if !slices.Contains(values, value) {
			return field.NotSupported(at, value, values)
		}
		*into(p) = value
		return nil
	}
}

func matching(into func(*Parameters) *string, holds func(string) bool, remedy string) reader {
	return func(p *Parameters, value string, at *field.Path) *field.Error {
		if !holds(value) {
			return field.Invalid(at, value, remedy)
		}
		*into(p) = value
		return nil
	}
}

func address(into func(*Parameters) *string) reader {
	return func(p *Parameters, value string, at *field.Path) *field.Error {
		if ip, err := netip.ParseAddr(value); err != nil || ip.Zone() != "" {
			return field.Invalid(at, value, "must be an IP address")
		}
		*into(p) = value
		return nil
	}
}

// domain is for domain names, and for the names of Secrets and namespaces.
func domain(into func(*Parameters) *string) reader {
	return func(p *Parameters, value string, at *field.Path) *field.Error {
		if faults := validation.IsDNS1123Subdomain(value); len(faults) > 0 {
			return field.Invalid(at, value, faults[0])
		}
		*into(p) = value
		return nil
	}
}

func boolean(into func(*Parameters) *bool) reader {
	return func(p *Parameters, value string, at *field.Path) *field.Error {
		if value != "true" && value != "false" {
			return field.NotSupported(at, value, []string{"true", "false"})
		}
		*into(p) = value == "true"
		return nil
	}
}

func ids(into func(*Parameters) *[]string) reader {
	return func(p *Parameters, value string, at *field.Path) *field.Error {
		list := strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
		for _, id := range list {
			if !uuidForm.MatchString(id) {
				return field.Invalid(at, id, "must be the ID of a Cinder volume")
			}
		}
		if len(list) == 0 {
			return field.Invalid(at, value, "must name at least one Cinder volume")
		}
		*into(p) = list
		return nil
	}
}

package configmaps

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Reserved keys that are used outside of the table below too.
const (
	keyPluginName   = "plugin-name"
	keyStorageClass = "storage-class"
	keyRunAsUser    = "run-as-user"
	keyCapabilities = "capabilities"
	keyServiceToken = "service-token"
	keyHostPath     = "host-path"
	keyMountClaims  = "mount-claims"
	keyDevices      = "devices"
	keyProvision    = "provision"
	keyDelete       = "delete"
	keyExpand       = "expand"
	keyExpandable   = "expandable"
	keySnapshot     = "snapshot"
	keyDropSnapshot = "delete-snapshot"
	keySnapshots    = "snapshots"
	keyAttach       = "attach"
	keyDetach       = "detach"
	keyAttachments  = "attachments"
	keyListable     = "listable"
	keyFlexctl      = "flexctl"
)

// MaxTimeout is the longest time that an attempt may take from its pod's start.
const MaxTimeout = 24 * time.Hour

// Limits, in bytes.
const (
	maxProperties = 16 << 10 // of all properties together, names and values
	maxScript     = 64 << 10 // of one inline script
	maxValue      = 16 << 10 // of any other reserved key
)

// reservedKey is a row of the reference: a key whose value the dispatcher itself uses.
type reservedKey struct {
	name    string
	meaning string // one clause, for the reference and for the error of a missing required key
	form    string // what its value looks like
	// required reports whether the ConfigMap has to have the key. Such a key has neither defaultValue nor absent.
	required bool
	// defaultValue is the value of an absent key, in the key's form.
	defaultValue string
	// absent describes what happens if the key is absent and has no defaultValue.
	absent string
	// script reports whether white space at the ends of the value is kept.
	script bool
	parse  parser
}

// parser parses a value into the Config. The value is not empty, not too long, and without control characters.
type parser func(c *Config, value string, path *field.Path) field.ErrorList

// reserved is the table of reserved keys. Parse goes through it in this order.
var reserved = []reservedKey{
	{name: keyPluginName, form: "qualified name, not under kubernetes.io/",
		meaning:  "the provisioner name, equal to the StorageClass's provisioner",
		required: true, parse: parsePluginName},
	{name: keyStorageClass, form: "name of a StorageClass",
		meaning: "the class, where its name is too long for the label of the same name",
		absent:  "the label's value", parse: parseClassKey},
	{name: "image", form: "image reference",
		meaning:  "the container image that does the work",
		required: true, parse: parseImage},
	{name: "service-account-name", form: "name in the ConfigMap's namespace",
		meaning:  "the ServiceAccount of the provisioner pods, which creates the PersistentVolume",
		required: true, parse: objectName(func(c *Config) *string { return &c.ServiceAccountName })},
	{name: keyServiceToken, form: "text",
		meaning: "a literal token; not used, since only a pod's own token may create volumes",
		absent:  "pods get a token of the ServiceAccount that ends with them", parse: parseLiteralToken},
	{name: "node-selector", form: "YAML map or `k=v,k=v`",
		meaning: "labels of the nodes that provisioner pods may run on",
		absent:  "any node", parse: parseNodeSelector},
	{name: "tolerations", form: "YAML list of Kubernetes tolerations",
		meaning: "taints that provisioner pods tolerate",
		absent:  "none", parse: parseTolerations},
	{name: "timeout", form: "duration, 10s to 24h",
		meaning:      "how long one attempt may take from the pod's start",
		defaultValue: "10m",
		parse:        duration(func(c *Config) *time.Duration { return &c.Timeout }, 10*time.Second, MaxTimeout)},
	{name: "start-timeout", form: "duration, 10s to 24h",
		meaning:      "how long a pod may take from its creation until its container runs",
		defaultValue: "5m",
		parse: duration(func(c *Config) *time.Duration {
			return &c.StartTimeout
		}, 10*time.Second, 24*time.Hour)},
	{name: "failed-pod-ttl", form: "duration, 0s to 168h",
		meaning: "how long a failed pod stays for its logs once nobody needs it as a record; the last one " +
			"of a waiting claim always stays",
		defaultValue: "0s",
		parse:        duration(func(c *Config) *time.Duration { return &c.FailedPodTTL }, 0, 7*24*time.Hour)},
	{name: "max-concurrent", form: "number, 0 to 10000",
		meaning: "how many pods of this class may run at the same time, for which namespaces of claims take " +
			"turns; 0 is no limit",
		defaultValue: "0", parse: parseMaxConcurrent},
	{name: "delete-limit", form: "number, 0 to 10000",
		meaning: "how many volumes of this class that are older than a day may be deleted within an hour before " +
			"the rest waits for an administrator; 0 is no limit",
		absent: "the dispatcher's --delete-limit", parse: parseDeleteLimit},
	{name: "image-pull-policy", form: "Always, IfNotPresent or Never",
		meaning: "when the node pulls the image",
		absent:  "Kubernetes' own default", parse: parsePullPolicy},
	{name: "image-pull-secrets", form: "names, at most 16",
		meaning: "Secrets with the registry's credentials",
		absent:  "none",
		parse:   objectNames(func(c *Config) *[]string { return &c.ImagePullSecrets })},
	{name: "resources", form: "YAML `{requests: …, limits: …}` of cpu, memory, ephemeral-storage",
		meaning: "what the container asks for and may use; what is not given is as in the default, but " +
			"never contradicts what is",
		defaultValue: "{requests: {cpu: 10m, memory: 32Mi}, limits: {memory: 256Mi}}", parse: parseResources},
	{name: keyRunAsUser, form: "number, 0 to 2147483647, or namespace",
		meaning: "the pod's user; 0 is root, and takes the privilege `root`; `namespace` states none, so that " +
			"the cluster chooses one, as OpenShift does, or the image",
		absent: "65532", parse: parseRunAsUser},
	{name: "selinux-level", form: "level of SELinux, such as s0:c1,c2",
		meaning: "the level at which the pod runs, the same for each pod, so that one reaches what another has made",
		absent:  "what the cluster or the runtime chooses", parse: parseSELinuxLevel},
	{name: keyCapabilities, form: "names without CAP_, at most 16; only with `run-as-user: \"0\"`",
		meaning: "Linux capabilities of the container, beside those of root; each takes the privilege " +
			"`capability/NAME`",
		absent: "none", parse: parseCapabilities},
	{name: "privileged", form: "true or false",
		meaning: "the container is privileged, and can do on the node what its user can; takes the " +
			"privilege `privileged`",
		defaultValue: "false",
		parse:        boolean(func(c *Config) *bool { return &c.Privileged })},
	{name: "host-network", form: "true or false",
		meaning:      "the pod is in the network of its node; takes the privilege `host-network`",
		defaultValue: "false",
		parse:        boolean(func(c *Config) *bool { return &c.HostNetwork })},
	{name: "secrets", form: "names, at most 16",
		meaning: "Secrets mounted as files under /var/run/secrets/flex-provisioner/NAME/",
		absent:  "none",
		parse:   objectNames(func(c *Config) *[]string { return &c.Secrets })},
	{name: keyHostPath, form: "absolute paths, each perhaps with `:ro`, at most 16",
		meaning: "directories of the node, mounted at the same path, with `:ro` for reading only; only those " +
			"that `flex-pv-policy` grants to the ServiceAccount",
		absent: "none", parse: parseHostPaths},
	{name: keyMountClaims, form: "`claim:/path`, at most 16",
		meaning: "claims of the ConfigMap's namespace, mounted into the pod",
		absent:  "none", parse: parseMountClaims},
	{name: keyDevices, form: "`claim:/dev/name`, at most 16",
		meaning: "claims of the ConfigMap's namespace with volumeMode Block, given to the container as devices; " +
			"each takes the privilege `device/CLAIM`",
		absent: "none", parse: parseDevices},
	{name: "priority-class-name", form: "name, not system-",
		meaning: "the pod's PriorityClass",
		absent:  "the cluster's default", parse: parsePriorityClass},
	{name: "pod-labels", form: "YAML map or `k=v,k=v`, at most 16",
		meaning: "labels of the pods, beside the dispatcher's own",
		absent:  "none", parse: parsePodLabels},
	{name: "pod-annotations", form: "YAML map or `k=v,k=v`, at most 16",
		meaning: "annotations of the pods, beside the dispatcher's own",
		absent:  "none", parse: parsePodAnnotations},
	{name: "claim-labels", form: "names, at most 16",
		meaning: "labels of the claim that the provisioner gets, as `FLEX_PVC_LABEL_NAME`",
		absent:  "none",
		parse: claimTexts(contract.ClaimLabelEnv, "a label's",
			func(c *Config) *[]string { return &c.ClaimLabels })},
	{name: "claim-annotations", form: "names, at most 16",
		meaning: "annotations of the claim that the provisioner gets, as `FLEX_PVC_ANNOTATION_NAME`",
		absent:  "none",
		parse: claimTexts(contract.ClaimAnnotationEnv, "an annotation's",
			func(c *Config) *[]string { return &c.ClaimAnnotations })},
	{name: keyProvision, form: "text, at most 64 KiB; needs `delete`",
		meaning: "an inline script that makes the storage, run in the image",
		absent:  "the image's entrypoint", script: true,
		parse: script(func(c *Config) *string { return &c.Provision })},
	{name: keyDelete, form: "text, at most 64 KiB; needs `provision`",
		meaning: "an inline script that removes the storage, run in the image",
		absent:  "the image's entrypoint", script: true,
		parse: script(func(c *Config) *string { return &c.Delete })},
	{name: keyExpand, form: "text, at most 64 KiB; needs `provision`",
		meaning: "an inline script that expands the storage, run in the image",
		absent:  "volumes cannot be expanded", script: true,
		parse: script(func(c *Config) *string { return &c.Expand })},
	{name: keyExpandable, form: "true or false; not with inline scripts",
		meaning:      "the image's entrypoint knows the operation `expand`",
		defaultValue: "false",
		parse:        boolean(func(c *Config) *bool { return &c.Expandable })},
	{name: keySnapshot, form: "text, at most 64 KiB; needs `provision` and `delete-snapshot`",
		meaning: "an inline script that takes a snapshot of a volume, run in the image; `provision` then restores",
		absent:  "there are no snapshots", script: true,
		parse: script(func(c *Config) *string { return &c.Snapshot })},
	{name: keyDropSnapshot, form: "text, at most 64 KiB; needs `snapshot`",
		meaning: "an inline script that removes a snapshot, run in the image",
		absent:  "there are no snapshots", script: true,
		parse: script(func(c *Config) *string { return &c.DeleteSnapshot })},
	{name: keySnapshots, form: "true or false; not with inline scripts",
		meaning: "the image's entrypoint knows the operations `snapshot` and `delete-snapshot`, and provisions from " +
			"snapshots",
		defaultValue: "false",
		parse:        boolean(func(c *Config) *bool { return &c.Snapshots })},
	{name: keyAttach, form: "text, at most 64 KiB; needs `provision` and `detach`",
		meaning: "an inline script that lets one node reach a volume of flex-node, run in the image",
		absent:  "nodes reach volumes without", script: true,
		parse: script(func(c *Config) *string { return &c.Attach })},
	{name: keyDetach, form: "text, at most 64 KiB; needs `attach`",
		meaning: "an inline script that takes a volume away from a node, run in the image",
		absent:  "nodes reach volumes without", script: true,
		parse: script(func(c *Config) *string { return &c.Detach })},
	{name: keyAttachments, form: "true or false; not with inline scripts",
		meaning: "the image's entrypoint knows the operations `attach` and `detach`, which volumes of flex-node need " +
			"that a node reaches only while the storage system lets it",
		defaultValue: "false",
		parse:        boolean(func(c *Config) *bool { return &c.Attachments })},
	{name: keyListable, form: "true or false; not with inline scripts",
		meaning:      "the image's entrypoint knows the operation `list`, by which the audit compares the storage",
		defaultValue: "false",
		parse:        boolean(func(c *Config) *bool { return &c.Listable })},
	{name: keyFlexctl, form: "mounted or in-image; only with inline scripts",
		meaning: "where inline scripts find flexctl: mounted into the pod, or in the image already, as in " +
			"the project's shell image, which spares each pod a mount (on older clusters an init container)",
		defaultValue: flexctlMounted, parse: parseFlexctl},
	{name: "access-modes", form: "names of Kubernetes access modes",
		meaning:      "the access modes that a claim may ask for",
		defaultValue: "ReadWriteOnce,ReadOnlyMany,ReadWriteMany,ReadWriteOncePod",
		parse: choices(func(c *Config) *[]corev1.PersistentVolumeAccessMode { return &c.AccessModes },
			corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod)},
	{name: "volume-modes", form: "Filesystem, Block or both",
		meaning:      "the volume modes that a claim may ask for",
		defaultValue: "Filesystem",
		parse: choices(func(c *Config) *[]corev1.PersistentVolumeMode { return &c.VolumeModes },
			corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock)},
	{name: "claim-sizes", form: "`1Gi-10Ti`, or one bound alone: `1Gi-`, `-10Ti`",
		meaning: "how much a claim may ask for",
		absent:  "no bound", parse: parseClaimSizes},
	{name: "node-local", form: "true or false",
		meaning: "the storage lives on the node that the pod ran on. If the scheduler chose a node for the " +
			"claim, the pod has to run there; pods of other classes do if they can",
		defaultValue: "false",
		parse:        boolean(func(c *Config) *bool { return &c.NodeLocal })},
	{name: "delete-under-pressure", form: "true or false",
		meaning: "a pod that removes node-local storage runs on its node although that lacks disk, memory or " +
			"processes, with the PriorityClass system-node-critical; takes the privilege `node-critical`",
		defaultValue: "false",
		parse:        boolean(func(c *Config) *bool { return &c.DeleteUnderPressure })},
	{name: "give-up-after", form: "duration, 1m to 8760h",
		meaning: "how long the Node with a volume's node-local storage has to be gone before the deletion of the " +
			"volume gives the storage up",
		absent: "the deletion waits for the node",
		parse: duration(func(c *Config) *time.Duration {
			return &c.GiveUpAfter
		}, time.Minute, 365*24*time.Hour)},
	{name: "volumes-handed-over", form: "true or false",
		meaning: "importers or backup tools give the class's volumes to other claims, or create them again, " +
			"by design: that alone keeps no storage from being removed",
		defaultValue: "false",
		parse:        boolean(func(c *Config) *bool { return &c.VolumesHandedOver })},
	{name: "show-logs", form: "true or false",
		meaning:      "the last log lines of a failed pod without a message go to the user's event",
		defaultValue: "false",
		parse:        boolean(func(c *Config) *bool { return &c.ShowLogs })},
}

// IsReserved reports whether the dispatcher itself uses the value of a key. All other keys are properties.
func IsReserved(key string) bool {
	return slices.ContainsFunc(reserved, func(k reservedKey) bool { return k.name == key })
}

// read checks what holds for every reserved key, and passes the value to the key's parser.
func (k reservedKey) read(c *Config, value string, path *field.Path) field.ErrorList {
	limit := maxValue
	if k.script {
		limit = maxScript
	}

	switch trimmed := strings.TrimSpace(value); {
	case trimmed == "" && k.required:
		return field.ErrorList{field.Required(path, k.meaning)}
	case trimmed == "":
		return field.ErrorList{emptyValue(path)}
	case len(value) > limit:
		return field.ErrorList{tooLongBytes(path, len(value), limit)}
	case !k.script:
		value = trimmed
	}

	if errs := checkText(value, path); errs != nil {
		return errs
	}

	return k.parse(c, value, path)
}

package parameters

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
)

// Properties are the properties of the class's ConfigMap, complete with defaults.
type Properties struct {
	// CloudConfig is the Secret with the credentials. The ConfigMap's key "secrets" has to name it too.
	CloudConfig string
	// Cloud is the name of the cloud in clouds.yaml. It may be empty if there is only one.
	Cloud string
	// Cluster names this Kubernetes cluster in the metadata of Cinder volumes.
	Cluster string
	// Initiators are the nodes' own iSCSI names in the given order, for the initiator mode "node".
	Initiators []Initiator
	// WWPNs and WWNNs are the names of the nodes' Fibre Channel ports and adapters.
	WWPNs, WWNNs []string
}

// Initiator is a node and its iSCSI name.
type Initiator struct{ Host, IQN string }

// property is a key of the ConfigMap.
type property struct{ name, meaning, form, defaultValue string }

var knownProperties = []property{
	{"cloud-config", "the Secret with the credentials, which the key `secrets` must name as well", "name", "cinder-cloud-config"},
	{"cloud", "which cloud of clouds.yaml, where it has several", "name", ""},
	{"cluster", "the name of this Kubernetes cluster, in the metadata of Cinder volumes", "letters, digits, `.`, `_` and `-`", "kubernetes"},
	{"initiators", "the nodes' iSCSI names, for initiatorMode node", "`node=IQN`, between commas or line ends", ""},
	{"wwpns", "the World Wide Port Names of all nodes, for Fibre Channel", "16 hexadecimal digits each, between commas or line ends", ""},
	{"wwnns", "the World Wide Node Names of all nodes, for Fibre Channel", "16 hexadecimal digits each, between commas or line ends", ""},
}

var clusterForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// ParseProperties reads the properties of a ConfigMap. The error has every fault.
func ParseProperties(values map[string]string) (Properties, error) {
	at := field.NewPath("properties")
	get := func(name string) string {
		if value, present := values[name]; present {
			return value
		}
		i := slices.IndexFunc(knownProperties, func(p property) bool { return p.name == name })
		return knownProperties[i].defaultValue
	}
	p := Properties{CloudConfig: get("cloud-config"), Cloud: get("cloud"), Cluster: get("cluster")}
	var errs field.ErrorList
	for _, fault := range validation.IsDNS1123Subdomain(p.CloudConfig) {
		errs = append(errs, field.Invalid(at.Key("cloud-config"), p.CloudConfig, fault))
	}
	if !clusterForm.MatchString(p.Cluster) {
		errs = append(errs, field.Invalid(at.Key("cluster"), p.Cluster, "must be 1 to 63 letters, digits, '.', '_' and '-', and begin with a letter or digit"))
	}
	for _, item := range items(get("initiators")) {
		host, iqn, _ := strings.Cut(item, "=")
		if host == "" || !isIQN(iqn) {
			errs = append(errs, field.Invalid(at.Key("initiators"), item, "must be node=IQN, such as node-1=iqn.1994-05.com.redhat:node-1"))
		}
		p.Initiators = append(p.Initiators, Initiator{host, iqn})
	}
	var wrong field.ErrorList
	p.WWPNs, wrong = wwns(get("wwpns"), at.Key("wwpns"))
	errs = append(errs, wrong...)
	p.WWNNs, wrong = wwns(get("wwnns"), at.Key("wwnns"))
	errs = append(errs, wrong...)
	// Cinder's drivers need both.
	if (len(p.WWPNs) == 0) != (len(p.WWNNs) == 0) {
		errs = append(errs, field.Required(at.Key("wwnns"), "wwpns and wwnns are given both or not at all"))
	}
	var known []string
	for _, k := range knownProperties {
		known = append(known, k.name)
	}
	errs = append(errs, unknown(values, known, at)...)
	if len(errs) > 0 {
		return Properties{}, errs.ToAggregate()
	}
	return p, nil
}

// KnownProperties returns only the properties that ParseProperties knows; see Known.
func KnownProperties(values map[string]string) map[string]string {
	out := map[string]string{}
	for _, k := range knownProperties {
		if value, present := values[k.name]; present {
			out[k.name] = value
		}
	}
	return out
}

func items(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
}

// wwns parses names, and writes them in the form of os-brick.
func wwns(value string, at *field.Path) (names []string, errs field.ErrorList) {
	for _, item := range items(value) {
		normal, err := form.WWN("", item)
		if err != nil {
			errs = append(errs, field.Invalid(at, item, "must have 16 hexadecimal digits"))
		}
		names = append(names, normal)
	}
	return names, errs
}

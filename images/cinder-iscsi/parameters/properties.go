package parameters

import (
	"errors"
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
	// Nodes are the nodes in the order in which the properties name them first, for the initiator mode "node".
	Nodes []Host
	// WWPNs and WWNNs are those without a node, of volumes that were made before the properties had nodes.
	WWPNs, WWNNs []string
	// Doubts are why no volume is made with these properties. Those that were made can still be removed.
	Doubts field.ErrorList
}

// Host has the names by which a node connects to storage. It has those of at least one protocol.
type Host struct {
	Name string
	// IQN is the name for iSCSI, and NQN the one for NVMe.
	IQN, NQN string
	// WWPNs and WWNNs are the names of the node's Fibre Channel ports and adapters.
	WWPNs, WWNNs []string
}

// property is a key of the ConfigMap.
type property struct{ name, meaning, form, defaultValue string }

var knownProperties = []property{
	{"cloud-config", "the Secret with the credentials, which the key `secrets` must name as well", "name", "cinder-cloud-config"},
	{"cloud", "which cloud of clouds.yaml, where it has several", "name", ""},
	{"cluster", "the name of this Kubernetes cluster, in the metadata of Cinder volumes", "letters, digits, `.`, `_` and `-`", "kubernetes"},
	{"initiators", "the nodes' iSCSI names, for initiatorMode node", "`node=IQN`, between commas or line ends", ""},
	{"nqns", "the nodes' NVMe names, for initiatorMode node", "`node=NQN`, between commas or line ends", ""},
	{"wwpns", "the World Wide Port Names of the nodes' Fibre Channel ports, for initiatorMode node", "`node=WWPN`, between commas or line ends", ""},
	{"wwnns", "the World Wide Node Names of the nodes' Fibre Channel adapters, for initiatorMode node", "`node=WWNN`, between commas or line ends", ""},
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
	// Lists of before may have a node or an IQN twice, and each volume of theirs has to go. So initiators has doubts alone.
	for _, pair := range readPairs(get("initiators"), at.Key("initiators"), iqnPair, iqnOf, &errs, &p.Doubts) {
		node := p.node(pair.node)
		if node.IQN != "" {
			p.Nodes = append(p.Nodes, Host{Name: pair.node})
			node = &p.Nodes[len(p.Nodes)-1]
		}
		node.IQN = pair.name
	}
	for _, pair := range readPairs(get("nqns"), at.Key("nqns"), nqnPair, nqnOf, &errs, &errs) {
		p.node(pair.node).NQN = pair.name
	}
	for _, pair := range readPairs(get("wwpns"), at.Key("wwpns"), wwnPair, wwnOf, &errs, &errs) {
		ports := &p.WWPNs
		if pair.node != "" {
			ports = &p.node(pair.node).WWPNs
		}
		*ports = append(*ports, pair.name)
	}
	for _, pair := range readPairs(get("wwnns"), at.Key("wwnns"), wwnPair, wwnOf, &errs, &errs) {
		adapters := &p.WWNNs
		if pair.node != "" {
			adapters = &p.node(pair.node).WWNNs
		}
		*adapters = append(*adapters, pair.name)
	}
	for _, node := range append(p.Nodes, Host{WWPNs: p.WWPNs, WWNNs: p.WWNNs}) {
		if (len(node.WWPNs) == 0) == (len(node.WWNNs) == 0) {
			continue
		}
		fault := "wwpns and wwnns are given both or not at all" // Cinder's drivers need both
		if node.Name != "" {
			fault += " for node " + node.Name
		}
		errs = append(errs, field.Required(at.Key("wwnns"), fault))
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

// node is the node of this name, which it adds if it is the first time.
func (p *Properties) node(name string) *Host {
	i := slices.IndexFunc(p.Nodes, func(n Host) bool { return n.Name == name })
	if i < 0 {
		i, p.Nodes = len(p.Nodes), append(p.Nodes, Host{Name: name})
	}

	return &p.Nodes[i]
}

// Forms of pairs. A node has one IQN and one NQN, and may have several ports and adapters.
const (
	iqnPair = "node=IQN, such as node-1=iqn.1994-05.com.redhat:node-1"
	nqnPair = "node=NQN, such as node-1=nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427"
	wwnPair = "node=WWN, such as node-1=10000090fa534185"
)

// pair is a node and a name of it. Names of Fibre Channel may have no node.
type pair struct{ node, name string }

// readPairs reads pairs of a node and its name. doubts are two nodes of the same name, two names of a node, and names
// that no node can have. A pair that is there twice counts once.
func readPairs(
	value string, at *field.Path, form string, normal func(string) (string, error), errs, doubts *field.ErrorList,
) (pairs []pair) {
	for _, item := range items(value) {
		node, name, paired := strings.Cut(item, "=")
		if !paired && form == wwnPair {
			node, name = "", item
		}
		name, err := normal(name)
		anyNode := !paired && form == wwnPair
		this := pair{node, name}
		switch {
		case err != nil || node == "" && !anyNode:
			*errs = append(*errs, field.Invalid(at, item, "must be "+form))
			continue
		case slices.Contains(pairs, this):
			continue
		case len(validation.IsDNS1123Subdomain(node)) > 0 && !anyNode:
			*doubts = append(*doubts, field.Invalid(at, item, "must be "+form))
		case slices.ContainsFunc(pairs, func(p pair) bool { return p.name == name }):
			*doubts = append(*doubts, field.Duplicate(at, name))
		case form != wwnPair && slices.ContainsFunc(pairs, func(p pair) bool { return p.node == node }):
			*doubts = append(*doubts, field.Duplicate(at, node))
		}
		pairs = append(pairs, this)
	}

	return pairs
}

func iqnOf(name string) (string, error) {
	if !isIQN(name) {
		return "", errors.New("no IQN")
	}
	return name, nil
}

func nqnOf(name string) (string, error) { return name, form.NQN("", name) }

func wwnOf(name string) (string, error) { return form.WWN("", name) }

package contract

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

// MaxNodeID is the limit in bytes that Kubernetes and CSI set to the ID of a node.
const MaxNodeID = 256

// Connector is what a storage system has to know of a node before it gives it a volume. Each node has only some of it.
// As JSON it is the ID that the node has for the CSI driver of flex-node, which Kubernetes keeps in the node's CSINode.
type Connector struct {
	// IQN is the name of the node's iSCSI initiator.
	IQN string `json:"iqn,omitempty"`
	// NQN is the name of the node's NVMe host.
	NQN string `json:"nqn,omitempty"`
	// WWPNs are the names of the node's Fibre Channel ports, each of 16 lower-case hexadecimal digits.
	WWPNs []string `json:"wwpns,omitempty"`
	// IP is the node's own address.
	IP string `json:"ip,omitempty"`
}

// maxName is the limit in bytes that the standards of iSCSI and NVMe set to a name.
const maxName = 223

// Forms of names. They are compiled where they are used: flexctl has this package, and is small without them.
const (
	iqnForm  = `^(iqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9._:-]+|(eui|naa)\.([[:xdigit:]]{16}){1,2})$`
	nqnForm  = `^nqn\.[0-9]{4}-[0-9]{2}\.[A-Za-z0-9._:-]+$`
	wwpnForm = `^[0-9a-f]{16}$`
)

func is(name, form string) bool {
	return len(name) <= maxName && regexp.MustCompile(form).MatchString(name)
}

// ParseConnector reads the ID of a node. A node of which nothing but its name is known has that as its ID, and the
// Connector is empty. Fields that a later version adds are ignored.
func ParseConnector(nodeID string) (Connector, error) {
	var c Connector
	if !strings.HasPrefix(nodeID, "{") {
		return c, nil
	}

	if len(nodeID) > MaxNodeID {
		return c, fmt.Errorf("the connector has %d bytes, at most %d are allowed", len(nodeID), MaxNodeID)
	}

	if err := json.Unmarshal([]byte(nodeID), &c); err != nil {
		return Connector{}, fmt.Errorf("the connector is no JSON of its form: %w", err)
	}

	if err := c.Validate(); err != nil {
		return Connector{}, err
	}

	return c, nil
}

// Validate returns an error for the first value that has not its form.
func (c Connector) Validate() error {
	if c.IQN != "" && !is(c.IQN, iqnForm) {
		return fmt.Errorf("%.256q is no name of an iSCSI initiator, such as iqn.2016-04.com.example:node-1", c.IQN)
	}

	if c.NQN != "" && !is(c.NQN, nqnForm) {
		return fmt.Errorf("%.256q is no name of an NVMe host, such as nqn.2014-08.org.nvmexpress:uuid:UUID", c.NQN)
	}

	for _, name := range c.WWPNs {
		if !is(name, wwpnForm) {
			return fmt.Errorf("%.256q is no name of a Fibre Channel port: it has 16 hexadecimal digits", name)
		}
	}

	if ip, err := netip.ParseAddr(c.IP); c.IP != "" && (err != nil || ip.Zone() != "") {
		return fmt.Errorf("%.256q is no IP address", c.IP)
	}

	return nil
}

// String is the connector as JSON, which ParseConnector reads.
func (c Connector) String() string {
	text, err := json.Marshal(c)
	if err != nil { // strings alone
		return ""
	}

	return string(text)
}

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Files of the host that say who it is.
const (
	initiatorFile = "/etc/iscsi/initiatorname.iscsi"
	hostNQNFile   = "/etc/nvme/hostnqn"
	initiatorKey  = "InitiatorName"
)

// NodeID is the connector of the node with an address, and the node's name where nothing else is known.
func (h *Host) NodeID(name, ip string) (string, error) {
	if err := (contract.Connector{IP: ip}).Validate(); err != nil {
		return "", fmt.Errorf("NODE_IP: %w", err)
	}

	c, err := h.connector()
	if err != nil {
		return "", err
	}

	c.IP = ip
	if reflect.DeepEqual(c, contract.Connector{}) {
		return name, nil
	}

	id := c.String()
	if len(id) > contract.MaxNodeID {
		return "", fmt.Errorf("what arrays have to know of this node has %d bytes, and Kubernetes takes %d: give it a "+
			"shorter name in %s or %s: %s", len(id), contract.MaxNodeID, initiatorFile, hostNQNFile, id)
	}

	return id, nil
}

func (h *Host) connector() (c contract.Connector, err error) {
	if c.IQN, err = h.value(initiatorFile, initiatorName); err != nil {
		return c, err
	}

	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("%s: %w", initiatorFile, err)
	}

	if c.NQN, err = h.value(hostNQNFile, strings.TrimSpace); err != nil {
		return c, err
	}

	if err := c.Validate(); err != nil {
		return c, fmt.Errorf("%s: %w", hostNQNFile, err)
	}

	ports, err := filepath.Glob(h.sys + "/class/fc_host/*/port_name")
	if err != nil {
		return c, err
	}

	for _, port := range ports {
		c.WWPNs = append(c.WWPNs, strings.TrimPrefix(attribute(port), "0x"))
		if err := c.Validate(); err != nil {
			return c, fmt.Errorf("%s: %w", port, err)
		}
	}

	return c, nil
}

// value is what a file of the host has, and empty where there is no file.
func (h *Host) value(path string, in func(string) string) (string, error) {
	data, err := os.ReadFile(h.root + path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}

	return in(string(data)), err
}

// initiatorName is the first one, as open-iscsi reads the file. There is none before iscsid was started once.
func initiatorName(file string) string {
	for line := range strings.Lines(file) {
		key, value, found := strings.Cut(line, "=")
		if found && strings.TrimSpace(key) == initiatorKey {
			return strings.TrimSpace(value)
		}
	}

	return ""
}

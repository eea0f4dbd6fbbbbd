package flow

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
)

// maxDevice is how many characters Cinder keeps of the device of an attachment.
const maxDevice = 255

// nodeConnector is the connector of the request's node.
func (f *Flow) nodeConnector() (cinder.Connector, error) {
	name := f.Request.Attachment.Node
	device := f.device() + "/" + name
	if len(device) > maxDevice || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, fmt.Errorf("node %s: its name is none that Cinder could keep", form.Quote(name))
	}
	host, ip, err := parseNode(f.Request.Attachment.Connector)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", name, err)
	}

	host.Name = name
	c := f.connectorOf(host)
	c["mountpoint"] = device
	if host.NQN == "" {
		delete(c, "nqn")
	}
	if ip != "" {
		c["ip"] = ip
	}
	if f.readOnly {
		c["mode"] = "ro"
	}

	return c, nil
}

// parseNode reads what the node says of itself, which may be anything. contract.ParseConnector is to replace it.
func parseNode(text string) (host parameters.Host, ip string, err error) {
	var says struct {
		IQN, NQN, IP string
		WWPNs        []string
	}
	if json.Unmarshal([]byte(text), &says) != nil {
		return host, "", errors.New("its connector is not a JSON object with iqn, nqn, wwpns and ip")
	}
	if says.IQN == "" {
		return host, "", errors.New("its connector has no iqn; install open-iscsi on the node")
	}

	err = errors.Join(form.ISCSIName("iqn", says.IQN), form.Count("wwpns", len(says.WWPNs)))
	if says.NQN != "" {
		err = errors.Join(err, form.NQN("nqn", says.NQN))
	}
	if says.IP != "" {
		var wrong error
		ip, wrong = form.Address("ip", says.IP)
		err = errors.Join(err, wrong)
	}
	for _, text := range says.WWPNs {
		wwpn, wrong := form.WWN("wwpns", text)
		host.WWPNs, err = append(host.WWPNs, wwpn), errors.Join(err, wrong)
	}
	host.IQN, host.NQN = says.IQN, says.NQN

	return host, ip, err
}

package flow

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
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

	says, err := contract.ParseConnector(f.Request.Attachment.Connector)
	switch {
	case err != nil:
		return nil, fmt.Errorf("node %s: %w", name, err)
	case says.IQN == "":
		return nil, fmt.Errorf("node %s: its connector has no iqn: install open-iscsi there, and let flex-node have the "+
			"stager iscsi", name)
	}

	c := f.connectorOf(parameters.Host{Name: name, IQN: says.IQN, NQN: says.NQN, WWPNs: says.WWPNs})
	c["mountpoint"] = device
	if says.NQN == "" {
		delete(c, "nqn")
	}
	if says.IP != "" {
		c["ip"] = says.IP
	}
	if f.readOnly {
		c["mode"] = "ro"
	}

	return c, nil
}

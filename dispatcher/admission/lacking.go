package admission

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"
)

// Lacking names what is missing of the policies without which the dispatcher of the two namespaces and the provisioner
// creates no pods, or is not as shipped, one text for each policy. Whether they are enforced only the dispatcher's
// probes show.
func Lacking(
	policies []admissionv1.ValidatingAdmissionPolicy, bindings []admissionv1.ValidatingAdmissionPolicyBinding,
	system, provisioners, provisioner string,
) ([]string, error) {
	all, err := readShipped(system, provisioners, provisioner)
	if err != nil {
		return nil, err
	}

	required, _ := takeOut(all, creatorGuard)

	c := comparison{
		shipped:  required,
		policies: cache.NewStore(cache.MetaNamespaceKeyFunc),
		bindings: cache.NewStore(cache.MetaNamespaceKeyFunc),
	}

	for i := range policies {
		if err := c.policies.Add(&policies[i]); err != nil {
			return nil, fmt.Errorf("compare ValidatingAdmissionPolicy %s: %w", policies[i].Name, err)
		}
	}

	for i := range bindings {
		if err := c.bindings.Add(&bindings[i]); err != nil {
			return nil, fmt.Errorf("compare ValidatingAdmissionPolicyBinding %s: %w", bindings[i].Name, err)
		}
	}

	var lacks []string
	for _, want := range required {
		if _, lack := c.find(want); lack != "" {
			lacks = append(lacks, lack)
		}
	}

	return lacks, nil
}

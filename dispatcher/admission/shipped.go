package admission

import (
	"fmt"
	"io/fs"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/deploy/policies"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// shipped is a policy with its binding.
type shipped struct {
	policy  admissionv1.ValidatingAdmissionPolicy
	binding admissionv1.ValidatingAdmissionPolicyBinding
}

// readShipped reads the policies that come with this program, as they have to be for the two namespaces and the
// provisioner's name.
func readShipped(system, provisioners, provisioner string) ([]shipped, error) {
	files, err := fs.Glob(policies.Files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list shipped manifests: %w", err)
	}

	var s []shipped
	bindings := map[string]admissionv1.ValidatingAdmissionPolicyBinding{}
	names := strings.NewReplacer(contract.SystemNamespace, system, contract.ProvisionersNamespace, provisioners,
		contract.ProvisionerName, provisioner)

	for _, file := range files {
		data, err := policies.Files.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read shipped manifest %s: %w", file, err)
		}

		for document := range strings.SplitSeq(names.Replace(string(data)), "\n---\n") {
			var kind metav1.TypeMeta
			if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
				return nil, fmt.Errorf("read shipped manifest %s: %w", file, err)
			}

			switch kind.Kind {
			case "ValidatingAdmissionPolicy":
				var policy admissionv1.ValidatingAdmissionPolicy
				err = yaml.UnmarshalStrict([]byte(document), &policy)
				s = append(s, shipped{policy: policy})
			case "ValidatingAdmissionPolicyBinding":
				var binding admissionv1.ValidatingAdmissionPolicyBinding
				err = yaml.UnmarshalStrict([]byte(document), &binding)
				bindings[binding.Spec.PolicyName] = binding
			}

			if err != nil {
				return nil, fmt.Errorf("read shipped manifest %s: %s: %w", file, kind.Kind, err)
			}
		}
	}

	for i := range s {
		binding, bound := bindings[s[i].policy.Name]
		if !bound {
			return nil, fmt.Errorf("shipped ValidatingAdmissionPolicy %s has no binding", s[i].policy.Name)
		}

		s[i].binding = binding
	}

	return s, nil
}

// takeOut takes the policy of a name out of the others. It is empty where there is none.
func takeOut(all []shipped, name string) (others []shipped, one shipped) {
	for _, s := range all {
		if s.policy.Name == name {
			one = s
		} else {
			others = append(others, s)
		}
	}

	return others, one
}

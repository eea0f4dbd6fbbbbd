//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// The first design's image talks to the storage control plane at the address of its example. It has no key for a mount, and needs none.
const (
	designImage = "docker.io/custom/iscsi-provision:latest"
	designEntry = `#!/bin/sh
set -eu
echo "$FLEX_PV_NAME user=$FLEX_USERNAME $FLEX_STORAGE_CLASS $ZONE $USE_NFS_SERVER $FLEX_SERVICE_ACCOUNT"
ask() { timeout 10 wget -q -O - "http://$USE_NFS_SERVER/cgi-bin/$1?$FLEX_PV_NAME" && [ -n "$FLEX_KUBE_API" ] || flexctl fail --try-again "the storage control plane does not answer"; }
case $FLEX_OPERATION in
provision) flexctl create-pv --nfs "$(ask make)" ;;
delete) [ "$(ask remove)" = gone ] || flexctl fail "the storage control plane did not remove $FLEX_PV_NAME" ;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac
`
	designAddress = "10.10.2.4"
	controlPlane  = `mkdir -p /tmp/www/cgi-bin
cat > /tmp/www/cgi-bin/make <<'END'
#!/bin/sh
printf 'Content-Type: text/plain\r\n\r\n'
mkdir -p "/export/volumes/$QUERY_STRING" && chmod 0777 "/export/volumes/$QUERY_STRING" && echo "$EXPORT/volumes/$QUERY_STRING"
END
cat > /tmp/www/cgi-bin/remove <<'END'
#!/bin/sh
printf 'Content-Type: text/plain\r\n\r\n'
rm -rf -- "/export/volumes/$QUERY_STRING" && echo gone
END
chmod 0755 /tmp/www/cgi-bin/*
exec httpd -f -p ` + designAddress + `:80 -h /tmp/www
`
	// onTheNode stands for a registry. The example's image has no tag, so that Kubernetes would pull it for each pod, and the cluster has
	// nothing to pull from.
	onTheNode = `apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: e2e-first-design}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  matchConditions:
  - {name: the-image, expression: "object.spec.containers[0].image == 'custom/iscsi-provision'"}
  reinvocationPolicy: Never
  failurePolicy: Fail
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: '[JSONPatch{op: "replace", path: "/spec/containers/0/imagePullPolicy", value: "IfNotPresent"}]'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: e2e-first-design}
spec: {policyName: e2e-first-design}
`
)

// TestFirstDesign tries the first design's example as a new user would: as it was printed, with its YAML mended, and then with this
// program's plugin-name and namespace, and with nothing else changed.
func TestFirstDesign(t *testing.T) {
	s := begin(t)
	page, err := os.ReadFile(filepath.Join(repository, "docs/from-the-design.md"))
	s.ok(err)
	_, example, _ := strings.Cut(string(page), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")

	printed := regexp.MustCompile(`(?m)^(  (?:service-token|use-nfs-server|zone):) `).ReplaceAllString(example, "$1")
	if _, err := kubectl(s.Context(), "apply", "-f", s.file("printed.yaml", printed)); err == nil || !strings.Contains(err.Error(), "error converting YAML to JSON: yaml: line 14") {
		t.Errorf("as it was printed: %v, want an error that names the line", err)
	}
	if said, code := s.flex(kubeconfig(), "conformance", s.file("printed.yaml", printed)); code == 0 ||
		!strings.Contains(said, `printed.yaml line 14: is not YAML: could not find expected ':'; line 13: write a space after "service-token:"`) {
		t.Errorf("as it was printed: %s, want an error that names the line and the remedy", said)
	}

	class := &class{s: s, id: "foo", name: "silver"}
	s.ok(openDir(class.dir()))
	s.ok(openDir(class.dir() + "/volumes"))
	s.classes = append(s.classes, class)
	class.allow()
	class.makeAccount()
	class.makeStorageClass()
	class.runStorageControlPlane()
	dockerfile := "FROM " + shellImage + "\n" +
		"COPY --chmod=0755 iscsi-provision.sh /usr/bin/\n" +
		"ENTRYPOINT [\"/usr/bin/iscsi-provision.sh\"]\n"
	s.load(s.imageOf(designImage, dockerfile, "iscsi-provision.sh", designEntry), designImage)
	s.pullsNothing()
	claim := class.claim("claim")

	elsewhere := strings.NewReplacer("namespace: flex-provisioners", "namespace: "+s.name, "plugin-name: flex-provisioner.io/dispatcher", "plugin-name: kubernetes.io/flex-provisioner").Replace(example)
	out, err := kubectl(s.Context(), "apply", "-f", s.file("elsewhere.yaml", elsewhere))
	s.ok(err)
	if !strings.Contains(out, "Warning: ") || !strings.Contains(out, "provisioner ConfigMaps have effect in namespace flex-provisioners only") {
		t.Errorf("in another namespace kubectl printed %s", out)
	}
	claim.told(soon, "ProvisionerConfigMissing",
		`namespace flex-provisioners has no provisioner ConfigMap for class "silver": an administrator has to create one there with the labels storage-class and type=provisioner-config`)

	configMaps := shared.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace)
	_, err = kubectl(s.Context(), "apply", "-f", s.file("example.yaml", example))
	s.ok(err)
	s.later(func(ctx context.Context) error {
		return configMaps.Delete(ctx, "custom-isci-provisioner", metav1.DeleteOptions{})
	})
	cm, err := configMaps.Get(s.Context(), "custom-isci-provisioner", metav1.GetOptions{})
	s.ok(err)
	s.told(soon, cm.UID, "LiteralToken", "data[service-token] is not used: *")
	claim.bound(patient)
	if got, want := claim.volume().Spec.NFS.Path, claim.directory(); got != want {
		t.Errorf("the volume's path is %s, want %s", got, want)
	}
	claim.consume(shared.admin)
	claim.delete()
	claim.gone(patient)
}

// pullsNothing lets pods of the example's image run where the image is on the node.
func (s *scope) pullsNothing() {
	s.Helper()
	file := s.file("policy.yaml", onTheNode)
	s.later(func(ctx context.Context) error {
		_, err := kubectl(ctx, "delete", "--ignore-not-found", "-f", file)
		return err
	})
	_, err := kubectl(s.Context(), "apply", "-f", file)
	s.ok(err)
	s.wait(patient, "the image is not pulled", func() string {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "custom/iscsi-provision"}}}}
		made, err := shared.admin.CoreV1().Pods(s.name).Create(s.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err.Error()
		}
		if made.Spec.Containers[0].ImagePullPolicy != corev1.PullIfNotPresent {
			return "the policy is not in force"
		}
		return ""
	})
}

// runStorageControlPlane serves the address of the design's example: it makes and removes directories of the class's export.
func (c *class) runStorageControlPlane() {
	s := c.s
	s.Helper()
	s.onNode("ip address add " + designAddress + "/32 dev lo")
	s.later(func(ctx context.Context) error { return onNode(ctx, "ip address delete "+designAddress+"/32 dev lo") })
	root, none := int64(0), int64(0)
	made, err := shared.admin.CoreV1().Pods(s.name).Create(s.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "storage-control-plane"},
		Spec: corev1.PodSpec{
			HostNetwork: true, NodeName: "node1", TerminationGracePeriodSeconds: &none,
			Containers: []corev1.Container{{
				Name: "httpd", Image: shellImage, Command: []string{"/bin/sh", "-euc", controlPlane}, Env: []corev1.EnvVar{{Name: "EXPORT", Value: nfsServer + ":" + c.dir()}},
				SecurityContext: &corev1.SecurityContext{RunAsUser: &root}, VolumeMounts: []corev1.VolumeMount{{Name: "export", MountPath: "/export"}},
			}},
			Volumes: []corev1.Volume{{Name: "export", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: nfsServer, Path: c.dir()}}}},
		},
	}, metav1.CreateOptions{})
	s.ok(err)
	s.podRuns(made)
}

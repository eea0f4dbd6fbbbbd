//go:build integration

package integration

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/request"
)

const inProvisioners = "/api/v1/namespaces/" + contract.ProvisionersNamespace

// privilegeCase is a pod of testdata/privileges.yaml.
type privilegeCase struct {
	Name      string         `json:"name"`
	As        string         `json:"as"`
	Pod       map[string]any `json:"pod"`
	Container map[string]any `json:"container"`
	// Ephemeral is a merge patch of the container, which is added to a pod of unlisted instead.
	Ephemeral map[string]any `json:"ephemeral"`
	Needs     string         `json:"needs"`
	Refused   string         `json:"refused"`
}

// privilegeTable is testdata/privileges.yaml.
type privilegeTable struct {
	Pod       map[string]any  `json:"pod"`
	Container map[string]any  `json:"container"`
	Cases     []privilegeCase `json:"cases"`
}

func readPrivileges(t *testing.T) privilegeTable {
	t.Helper()
	var table privilegeTable
	readData(t, "privileges.yaml", &table)
	for _, account := range []string{"default", "granted", "only-root", "only-privileged", "only-host-network", "only-capability", "only-device", "only-host-path", "only-host-path-ro", "only-node-critical"} {
		ensureAccount(t, account)
	}
	return table
}

// request makes the pod of a case, or adds its container.
func (table privilegeTable) request(c privilegeCase) request.Request {
	if c.Ephemeral != nil {
		container := request.Merged(request.Merged(table.Container, map[string]any{"name": "debug"}), c.Ephemeral)
		return request.Request{Verb: "PATCH", Path: inProvisioners + "/pods/prov-66666666-6666-4666-8666-666666666666-0/ephemeralcontainers",
			Body: map[string]any{"spec": map[string]any{"ephemeralContainers": []any{container}}}}
	}
	container := request.Merged(table.Container, c.Container)
	pod := request.Merged(request.Merged(table.Pod, c.Pod), map[string]any{"spec": map[string]any{"containers": []any{container}}})
	return request.Request{Verb: "POST", Path: inProvisioners + "/pods", Body: pod}
}

func privilegeTrials(t *testing.T, _ map[string]string) []trial {
	t.Helper()
	table := readPrivileges(t)
	ensurePod(t, "prov-66666666-6666-4666-8666-666666666666-0", "unlisted")
	var all []trial
	for _, c := range table.Cases {
		if c.Needs == "" || serves(t, c.Needs) {
			all = append(all, trial{name: c.Name, token: tokenOf(t, c.As), refused: c.Refused, Request: table.request(c)})
		}
	}
	return all
}

// Each grant opens its own thing and nothing else: of all that can be asked for, an account is given what it is granted.
func TestEachGrantOpensItsOwn(t *testing.T) {
	table := readPrivileges(t)
	asks := map[string]string{
		"only-root":          `{pod: {spec: {securityContext: {runAsNonRoot: false, runAsUser: 0}}}, container: {securityContext: {capabilities: {drop: [ALL], add: [CHOWN, DAC_OVERRIDE, FOWNER]}}}}`,
		"only-privileged":    `{container: {securityContext: {privileged: true, allowPrivilegeEscalation: null, capabilities: null}}}`,
		"only-host-network":  `{pod: {spec: {hostNetwork: true}}}`,
		"only-capability":    `{container: {securityContext: {capabilities: {drop: [ALL], add: [SYS_ADMIN]}}}}`,
		"only-device":        `{pod: {spec: {volumes: [{name: x, persistentVolumeClaim: {claimName: disk}}]}}, container: {volumeDevices: [{name: x, devicePath: /dev/disk}]}}`,
		"only-host-path":     `{pod: {spec: {volumes: [{name: x, hostPath: {path: /mnt/flex}}]}}, container: {volumeMounts: [{name: x, mountPath: /x}]}}`,
		"only-host-path-ro":  `{pod: {spec: {volumes: [{name: x, hostPath: {path: /mnt/flex}}]}}, container: {volumeMounts: [{name: x, mountPath: /x, readOnly: true}]}}`,
		"only-node-critical": `{pod: {metadata: {name: del-77777777-7777-4777-8777-777777777777-0, labels: {flex-provisioner.io/operation: delete}}, spec: {priorityClassName: system-node-critical}}}`,
	}
	for account := range asks {
		for grant, text := range asks {
			t.Run(account+" asks for what is granted to "+grant, func(t *testing.T) {
				var c privilegeCase
				if err := yaml.UnmarshalStrict([]byte(text), &c); err != nil {
					t.Fatal(err)
				}
				c.Pod = request.Merged(c.Pod, map[string]any{"spec": request.Merged(specOf(c.Pod), map[string]any{"serviceAccountName": account})})
				granted := account == grant || account == "only-host-path" && grant == "only-host-path-ro" // who may write may read
				err := send(t, dispatcherToken(t), table.request(c))
				if granted && err != nil {
					t.Error(err)
				}
				want := "ServiceAccount " + account + " is not granted "
				if !granted && (err == nil || !strings.Contains(err.Error(), want)) {
					t.Errorf("answer: %v, want %q", err, want)
				}
			})
		}
	}
}

func specOf(pod map[string]any) map[string]any {
	spec, _ := pod["spec"].(map[string]any)
	return spec
}

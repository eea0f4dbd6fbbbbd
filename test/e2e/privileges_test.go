//go:build e2e

package e2e

import (
	"context"
	"maps"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// privilege is a thing that a class asks for by keys of its ConfigMap, and that lines of the allow-list grant. {dir} is a
// directory of the node, {id} the ServiceAccount, which also names a claim of a device.
type privilege struct {
	name string
	ask  map[string]string
	// without are settings of the allow-list that grant all else that is asked for.
	without map[string]string
	// line is what the event tells to add where the privilege alone is missing, and lacks what is not granted.
	line, lacks string
	// shows are lines that look prints with the privilege and not without it.
	shows []string
	// first makes what the node has to have.
	first func(s *scope, id string)
}

// look prints what the container is and can.
const look = `exec 3>&1 > "$home/found"
echo "user $(id -u)"
echo "capabilities $(sed -n 's/^CapEff:\t0*//p' /proc/self/status)"
echo "network $(readlink /proc/self/ns/net)"
if [ -d "$DIR" ]; then
	echo "directory $(cat "$DIR/node")"
	if echo "$FLEX_PV_NAME" 2> /dev/null > "$DIR/written"; then echo "directory written"; fi
	if [ -b "$DIR/device" ]; then echo "node of a device: $(head -c 5 "$DIR/device" 2>&1 | tr -d '\n' | sed 's/.*: //')"; fi
fi
if [ -b /dev/disk ]; then echo "device $(head -c 5 /dev/disk)"; fi
exec >&3
`

var root = map[string]string{"run-as-user": "0"}

// privileges are all there are. A privileged container has every capability that the node has.
func privileges(network, capabilities string) []privilege {
	return []privilege{
		{name: "root", ask: root, lacks: "root", line: `privileges: "root"`,
			shows: []string{"user 0", "capabilities b"}},
		{name: "capability", ask: with(root, "capabilities", "SYS_ADMIN"), without: map[string]string{"privileges": "root"},
			lacks: "capability/SYS_ADMIN", line: `privileges: "root, capability/SYS_ADMIN"`,
			shows: []string{"user 0", "capabilities 20000b"}},
		{name: "directory", ask: map[string]string{"host-path": "{dir}"},
			lacks: "{dir} of the node", line: `hostPaths: "{dir}"`, first: nodeDirectory,
			shows: []string{"user 65532", "capabilities ", "directory of the node", "directory written"}},
		{name: "directory to read", ask: map[string]string{"host-path": "{dir}:ro"},
			lacks: "{dir}:ro of the node", line: `hostPaths: "{dir}:ro"`, first: nodeDirectory,
			shows: []string{"user 65532", "capabilities ", "directory of the node"}},
		{name: "device", ask: with(root, "devices", "{id}-disk:/dev/disk"), without: map[string]string{"privileges": "root"},
			lacks: "device/{id}-disk", line: `privileges: "root, device/{id}-disk"`,
			first: deviceClaim, shows: []string{"user 0", "capabilities b", "device disk!"}},
		{name: "network", ask: map[string]string{"host-network": "true"},
			lacks: "host-network", line: `privileges: "host-network"`, shows: []string{"user 65532", "capabilities ", "network " + network}},
		// Root alone cannot open a device by a directory of the node that has one: the container's cgroup keeps it out.
		{name: "device by a directory", ask: with(root, "host-path", "{dir}"),
			without: map[string]string{"privileges": "root"}, lacks: "{dir} of the node", line: `hostPaths: "{dir}"`, first: deviceNode,
			shows: []string{"user 0", "capabilities b", "directory of the node", "directory written", "node of a device: Operation not permitted"}},
		{name: "privileged", ask: with(with(root, "privileged", "true"), "host-path", "{dir}"), without: map[string]string{"privileges": "root", "hostPaths": "{dir}"},
			lacks: "privileged", line: `privileges: "root, privileged"`,
			first: deviceNode, shows: []string{"user 0", "capabilities " + capabilities, "directory of the node", "directory written", "node of a device: disk!"}},
	}
}

// TestPrivileges takes every privilege through real pods: asked for by a class whose own ServiceAccount is not granted it, no pod is made,
// and events name the line, which is then enough, and opens its own thing and nothing else; granted and not asked for, it changes nothing.
func TestPrivileges(t *testing.T) {
	out, err := command(t.Context(), "test/cluster/enter.sh", "sh", "-c", `readlink /proc/self/ns/net; sed -n 's/^CapBnd:\t0*//p' /proc/self/status`)
	if err != nil {
		t.Fatal(err)
	}
	network, capabilities, _ := strings.Cut(strings.TrimSpace(out), "\n")
	for _, p := range privileges(network, capabilities) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			class := s.asking("a", p.ask, p.without, p.first)
			c := class.claim("data")
			said := class.filled("no pod is created: ServiceAccount {id} is not granted " + p.lacks +
				": to grant it, write into ConfigMap flex-system/flex-pv-policy {id}." + p.line)
			c.told(patient, "ProvisionerPodRefused", said)
			s.told(patient, class.edit(nil), "ProvisionerPodRefused", said)
			c.ran(contract.Provision, 0)
			setting, value, _ := strings.Cut(p.line, ": ")
			class.grant(map[string]string{setting: strings.Trim(value, `"`)})
			c.bound(2 * patient)
			class.found(p.shows)
		})
	}
	t.Run("granted and not asked for", func(t *testing.T) {
		t.Parallel()
		s := begin(t)
		class := s.asking("plain", nil, map[string]string{"privileges": "root, privileged, host-network, capability/SYS_ADMIN, device/{id}-disk", "hostPaths": "{dir}"}, nodeDirectory)
		class.claim("data").bound(patient)
		class.found([]string{"user 65532", "capabilities "})
		for _, line := range class.lines() {
			if line == "network "+network {
				t.Error("the pod is in its node's network")
			}
		}
	})
}

func with(of map[string]string, key, value string) map[string]string {
	of = maps.Clone(of)
	of[key] = value
	return of
}

// asking makes a class that asks for something on node1, and grants it something.
func (s *scope) asking(suffix string, ask, grant map[string]string, first func(*scope, string)) *class {
	s.Helper()
	id := s.name + "-" + suffix
	if first != nil {
		first(s, id)
	}
	c := &class{id: id}
	data := map[string]string{"node-selector": corev1.LabelHostname + "=node1", "dir": nodeDir(id)}
	for key, value := range ask {
		data[key] = c.filled(value)
	}
	c = s.class(suffix, setting{data: data, provision: look + makeDir + makeVolume})
	c.grant(grant)
	return c
}

// filled is a text with the class's names.
func (c *class) filled(text string) string {
	return strings.NewReplacer("{id}", c.id, "{dir}", nodeDir(c.id)).Replace(text)
}

// found compares what the class's pod found. Of the network it may be in one of its own, of which nobody knows the number.
func (c *class) found(want []string) {
	c.s.Helper()
	named := strings.Contains(strings.Join(want, "\n"), "network ")
	var got []string
	for _, line := range c.lines() {
		if named || !strings.HasPrefix(line, "network ") {
			got = append(got, line)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		c.s.Errorf("the pod of class %s found\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (c *class) lines() []string {
	c.s.Helper()
	text, err := os.ReadFile(c.dir() + "/found")
	c.s.ok(err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// nodeDir is the directory of node1 that a class asks for.
func nodeDir(id string) string { return exportDir + "/node-" + id }

func nodeDirectory(s *scope, id string) {
	s.Helper()
	dir := nodeDir(id)
	s.ok(openDir(dir))
	s.later(func(context.Context) error { return os.RemoveAll(dir) })
	s.ok(os.WriteFile(dir+"/node", []byte("of the node\n"), 0o644))
}

// disk is a block device of the node that begins with "disk!".
func (s *scope) disk(id string) string {
	s.Helper()
	file := nfsRoot + "/disk-" + id
	device := s.loopDevice(file)
	s.later(func(context.Context) error { return os.Remove(file) })
	f, err := os.OpenFile(device, os.O_WRONLY|os.O_SYNC, 0)
	s.ok(err)
	_, err = f.WriteString("disk!")
	s.ok(err)
	s.ok(f.Close())
	return device
}

// deviceNode makes the directory, with a node of a device in it.
func deviceNode(s *scope, id string) {
	s.Helper()
	nodeDirectory(s, id)
	_, err := command(s.Context(), "cp", "-a", s.disk(id), nodeDir(id)+"/device")
	s.ok(err)
}

// deviceClaim makes a claim {id}-disk of the provisioners' namespace for a device of node1.
func deviceClaim(s *scope, id string) {
	s.Helper()
	name, block, none := id+"-disk", corev1.PersistentVolumeBlock, ""
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}
	volumes, claims := shared.admin.CoreV1().PersistentVolumes(), shared.admin.CoreV1().PersistentVolumeClaims(contract.ProvisionersNamespace)
	_, err := volumes.Create(s.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: &block,
		ClaimRef:               &corev1.ObjectReference{Namespace: contract.ProvisionersNamespace, Name: name},
		PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: s.disk(id)}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node1"}}}}}}},
	}}, metav1.CreateOptions{})
	s.ok(err)
	s.later(func(ctx context.Context) error { return volumes.Delete(ctx, name, metav1.DeleteOptions{}) })
	_, err = claims.Create(s.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: &block, StorageClassName: &none, VolumeName: name,
		Resources: corev1.VolumeResourceRequirements{Requests: size},
	}}, metav1.CreateOptions{})
	s.ok(err)
	s.later(func(ctx context.Context) error { return claims.Delete(ctx, name, metav1.DeleteOptions{}) })
}

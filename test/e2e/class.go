//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// class is a StorageClass with all that an administrator makes for it.
type class struct {
	s *scope
	// name is the StorageClass's. id names the ConfigMap, the ServiceAccount and the directory.
	name, id string
	data     map[string]string
	terms    storagev1.StorageClass
}

// setting is what a test wants a class to be.
type setting struct {
	// name of the StorageClass, where it matters.
	name string
	// data are keys of the ConfigMap beside those that every class has. An empty value takes a key out.
	data map[string]string
	// provision and remove are inline scripts, after the prologue. Without them a directory is made and removed.
	provision, remove string
	// terms are the StorageClass's; its name and provisioner are given.
	terms storagev1.StorageClass
}

// prologue begins every script. $home is the class's directory and $dir the volume's. Each run leaves a line in
// $home/runs, and what it was given in $home/seen.
const prologue = `set -eu
trap 'exit 143' TERM
home=/export/$FOLDER
password=$(cat /var/run/secrets/flex-provisioner/*/password 2> /dev/null) || password=
dir=$home/volumes/$FLEX_PV_NAME
echo "$FLEX_OPERATION $(hostname)" >> "$home/runs"
env > "$home/seen/$FLEX_OPERATION-$FLEX_PV_NAME"
`

// Parts of scripts.
const (
	makeDir    = "mkdir -p \"$dir\"\nchmod 0777 \"$dir\"\n"
	makeVolume = "echo \"nfs: {server: $SERVER, path: $EXPORT/$FOLDER/volumes/$FLEX_PV_NAME}\" | flexctl create-pv\n"
	removeDir  = "rm -rf -- \"$dir\"\n"
	// gate waits until the test opens the gate of the volume, for the operation.
	gate = "until [ -e \"$home/gates/$FLEX_OPERATION-$FLEX_PV_NAME\" ]; do sleep 0.1; done\n"
)

// class makes a class. Its suffix tells it from others of the test.
func (s *scope) class(suffix string, want setting) *class {
	s.Helper()
	c := &class{s: s, id: s.name + "-" + suffix, name: want.name, terms: want.terms}
	if c.name == "" {
		c.name = c.id
	}
	c.data = map[string]string{
		"plugin-name":          contract.ProvisionerName,
		"image":                shellImage,
		"service-account-name": c.id,
		"mount-claims":         export + ":/export",
		"secrets":              c.id,
		"folder":               c.id,
		"server":               nfsServer,
		"export":               exportDir,
		"provision":            script(want.provision, makeDir+makeVolume),
		"delete":               script(want.remove, removeDir),
	}
	merge(c.data, want.data)
	for _, dir := range []string{"", "volumes", "seen", "gates"} {
		s.ok(openDir(filepath.Join(c.dir(), dir)))
	}
	s.classes = append(s.classes, c)
	c.install()
	return c
}

// install makes what the class consists of in Kubernetes.
func (c *class) install() {
	c.s.Helper()
	c.allow()
	c.makeAccount()
	c.s.secret(c.id, password)
	c.makeConfigMap(c.id, c.data)
	c.makeStorageClass()
}

func script(text, otherwise string) string {
	if text == "" {
		text = otherwise
	}
	return prologue + text
}

func merge(data, changes map[string]string) {
	for key, value := range changes {
		if value == "" {
			delete(data, key)
		} else {
			data[key] = value
		}
	}
}

func (c *class) dir() string { return exportDir + "/" + c.id }

// allow lets the class's ServiceAccount make volumes.
func (c *class) allow() {
	c.s.Helper()
	c.grant(map[string]string{"storageClasses": c.name, "volumeTypes": "nfs", "nfsExports": nfsServer + ":" + c.dir()})
}

// grant writes settings of the class's ServiceAccount into the allow-list, until the test ends.
func (c *class) grant(settings map[string]string) {
	c.s.Helper()
	lines, gone := map[string]any{}, map[string]any{}
	for setting, value := range settings {
		lines[setting], gone[setting] = c.filled(value), nil
	}
	c.s.ok(c.patchAllowList(c.s.Context(), lines))
	c.s.later(func(ctx context.Context) error { return c.patchAllowList(ctx, gone) })
}

// patchAllowList changes lines of the class's ServiceAccount. Merge patches of keys of one's own never conflict.
func (c *class) patchAllowList(ctx context.Context, rights map[string]any) error {
	data := map[string]any{}
	for key, value := range rights {
		data[c.id+"."+key] = value
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return err
	}
	_, err = shared.admin.CoreV1().ConfigMaps(contract.SystemNamespace).Patch(ctx, "flex-pv-policy", types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func (c *class) makeAccount() {
	c.s.Helper()
	no := false
	accounts := shared.admin.CoreV1().ServiceAccounts(contract.ProvisionersNamespace)
	_, err := accounts.Create(c.s.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: c.id}, AutomountServiceAccountToken: &no}, metav1.CreateOptions{})
	c.s.ok(err)
	c.s.later(func(ctx context.Context) error { return accounts.Delete(ctx, c.id, metav1.DeleteOptions{}) })
}

// makeConfigMap makes a provisioner ConfigMap for the class, and returns its UID. The class's own is named c.id.
func (c *class) makeConfigMap(name string, data map[string]string) types.UID {
	c.s.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"type": "provisioner-config"}}, Data: maps.Clone(data)}
	if len(c.name) <= 63 {
		cm.Labels["storage-class"] = c.name
	} else {
		cm.Data["storage-class"] = c.name
	}
	configMaps := shared.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace)
	made, err := configMaps.Create(c.s.Context(), cm, metav1.CreateOptions{})
	c.s.ok(err)
	c.s.later(func(ctx context.Context) error { return configMaps.Delete(ctx, name, metav1.DeleteOptions{}) })
	return made.UID
}

func (c *class) makeStorageClass() {
	c.s.Helper()
	terms := c.terms.DeepCopy()
	terms.Name, terms.Provisioner = c.name, contract.ProvisionerName
	classes := shared.admin.StorageV1().StorageClasses()
	_, err := classes.Create(c.s.Context(), terms, metav1.CreateOptions{})
	c.s.ok(err)
	c.s.later(func(ctx context.Context) error { return classes.Delete(ctx, c.name, metav1.DeleteOptions{}) })
}

func (c *class) removeStorageClass() {
	c.s.Helper()
	c.s.ok(shared.admin.StorageV1().StorageClasses().Delete(c.s.Context(), c.name, metav1.DeleteOptions{}))
}

// removeConfigMap removes a ConfigMap, and returns once the dispatcher knows.
func (c *class) removeConfigMap(name string) {
	c.s.Helper()
	err := shared.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace).Delete(c.s.Context(), name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		c.s.ok(err)
	}

	c.s.knowsConfigMaps()
}

// edit changes the class's ConfigMap, as setting.data does, and returns its UID once the dispatcher knows.
func (c *class) edit(changes map[string]string) types.UID {
	c.s.Helper()
	configMaps := shared.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace)
	var uid types.UID
	c.s.ok(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		cm, err := configMaps.Get(c.s.Context(), c.id, metav1.GetOptions{})
		if err != nil {
			return err
		}
		merge(cm.Data, changes)
		uid = cm.UID
		_, err = configMaps.Update(c.s.Context(), cm, metav1.UpdateOptions{})
		return err
	}))

	c.s.knowsConfigMaps()

	return uid
}

// knowsConfigMaps returns once the dispatcher knows each ConfigMap as it is now. Its cache of ConfigMaps may be older than that of
// claims, and has an order of its own: what it says of a further ConfigMap comes after all that was done before to others.
func (s *scope) knowsConfigMaps() {
	s.Helper()
	configMaps := shared.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace)
	last, err := configMaps.Create(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: s.name + "-last-",
		Labels: map[string]string{"type": "provisioner-config", "storage-class": s.name + "-last"}},
		Data: map[string]string{"plugin-name": contract.ProvisionerName, "image": shellImage, "service-account-name": s.name, "imgae": "no key"}},
		metav1.CreateOptions{})
	s.ok(err)
	s.later(func(ctx context.Context) error { return configMaps.Delete(ctx, last.Name, metav1.DeleteOptions{}) })
	s.told(patient, last.UID, "ConfigInvalid", "*")
	s.ok(configMaps.Delete(s.Context(), last.Name, metav1.DeleteOptions{}))
}

// open lets the scripts of the operation go on that wait at the volume's gate.
func (c *class) open(operation contract.Operation, volume string) {
	c.s.Helper()
	c.s.ok(os.WriteFile(fmt.Sprintf("%s/gates/%s-%s", c.dir(), operation, volume), nil, 0o644))
}

// runs are the runs of scripts of the class, each "operation pod", in the order of their starts.
func (c *class) runs() []string {
	c.s.Helper()
	text, err := os.ReadFile(c.dir() + "/runs")
	if os.IsNotExist(err) {
		return nil
	}
	c.s.ok(err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// env is the environment that the latest run of the operation for the volume was given.
func (c *class) env(operation contract.Operation, volume string) map[string]string {
	c.s.Helper()
	text, err := os.ReadFile(fmt.Sprintf("%s/seen/%s-%s", c.dir(), operation, volume))
	c.s.ok(err)
	env, last := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		name, value, found := strings.Cut(line, "=")
		if found && !strings.ContainsAny(name, " $(\"'") {
			env[name], last = value, name
		} else {
			env[last] += "\n" + line // of a value with several lines
		}
	}
	return env
}

// volumes are the names of the directories that the class's volumes have.
func (c *class) volumes() []string {
	c.s.Helper()
	names, err := c.storage()
	c.s.ok(err)
	return names
}

func (c *class) storage() ([]string, error) {
	dirs, err := os.ReadDir(c.dir() + "/volumes")
	var names []string
	for _, d := range dirs {
		names = append(names, d.Name())
	}
	return names, err
}

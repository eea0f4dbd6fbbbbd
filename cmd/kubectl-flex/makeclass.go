package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/class"
)

// scriptImage is the default image for inline scripts. It has flexctl.
const scriptImage = "registry.invalid/flex-provisioner/shell:dev"

// grants are the flags that write settings of the allow-list.
var grants = []struct{ flag, setting, help string }{
	{"volume-types", "volumeTypes", "the types of its volumes, such as nfs,csi (required)"},
	{"nfs-exports", "nfsExports", "server:/directory that nfs volumes stay below"},
	{"path-prefixes", "pathPrefixes", "directories that hostPath and local volumes stay below"},
	{"csi-drivers", "csiDrivers", "drivers that csi volumes may have"},
	{"secret-namespaces", "secretNamespaces", "namespaces of Secrets that volumes may refer to"},
	{"mount-options", "mountOptions", "mount options that volumes may have"},
	{"volume-fields", "volumeFields", "fc.wwids, iscsi.initiatorName, loopback"},
	{"privileges", "privileges", "what its pods may have, such as root,capability/SYS_ADMIN"},
	{"host-paths", "hostPaths", "directories of nodes that its pods may mount"},
}

// classes is a client for the objects of classes.
func (o *options) classes() (class.Cluster, error) {
	config, err := o.kube.ToRESTConfig()
	if err != nil {
		return class.Cluster{}, err
	}
	return class.New(config)
}

// place has the names of the installation, from the flags, or else from the dispatcher's Deployment.
func (o *options) place(ctx context.Context) (class.Place, error) {
	objects, err := o.dispatcherOnly(ctx)
	if err != nil {
		return class.Place{}, err
	}
	d := objects.Dispatcher
	return class.Place{Provisioner: d.Provisioner, Namespace: d.Namespace, System: o.system}, nil
}

// placeOffline is place without a cluster. The defaults are those of deploy/base.
func (o *options) placeOffline() class.Place {
	usual := class.Default()
	return class.Place{Provisioner: cmp.Or(o.provisioner, usual.Provisioner), Namespace: cmp.Or(o.namespace, usual.Namespace), System: o.system}
}

// makeFlags are the flags of the command class.
type makeFlags struct {
	o                                *options
	image, scriptDir, account        string
	export                           string
	scripts                          map[string]*string
	properties, settings, parameters []string
	grants                           map[string]*string
	reclaimPolicy, dryRun, output    string
	waitForConsumer, allowExpansion  bool
}

func newClass(o *options) *cobra.Command {
	f := &makeFlags{o: o, scripts: map[string]*string{}, grants: map[string]*string{}}
	cmd := &cobra.Command{
		Use:                   "class NAME --volume-types TYPES --image IMAGE|--script-dir DIRECTORY|--provision FILE...",
		Short:                 "Make a storage class, or change one, on the cluster of your kubeconfig",
		Long:                  `Applies the StorageClass NAME, its ConfigMap, its ServiceAccount and its lines of flex-pv-policy.`,
		Example:               `  kubectl flex class disks --image registry.example/disks:v1 --volume-types local --path-prefixes /d`,
		DisableFlagsInUseLine: true,
		Args:                  args(1, 1, "the name of the StorageClass and the ConfigMap"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.run(cmd.Context(), args[0]); err != nil {
				return fmt.Errorf("class %s: %w", args[0], err)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.image, "image", "", "the image that does the work (default: one with a shell, for scripts)")
	flags.StringVar(&f.scriptDir, "script-dir", "", "a directory with scripts provision, delete and perhaps expand")
	for _, script := range []string{"provision", "delete", "expand"} {
		f.scripts[script] = flags.String(script, "", "the file with the script that does it")
	}
	flags.StringVar(&f.export, "export", "", "SERVER:/DIRECTORY of NFS that its pods have at /export")
	flags.StringVar(&f.account, "service-account", "", "the ServiceAccount of its pods (default: NAME)")
	flags.StringArrayVar(&f.properties, "property", nil, "KEY=VALUE: a property; may be repeated, as the next two")
	flags.StringArrayVar(&f.settings, "set", nil, "KEY=VALUE: another key of the ConfigMap, such as timeout=20m")
	flags.StringArrayVar(&f.parameters, "parameter", nil, "KEY=VALUE: a parameter of the StorageClass")
	for _, grant := range grants {
		f.grants[grant.setting] = flags.String(grant.flag, "", grant.help)
	}
	flags.StringVar(&f.reclaimPolicy, "reclaim-policy", string(corev1.PersistentVolumeReclaimDelete), "Delete or Retain")
	flags.BoolVar(&f.waitForConsumer, "wait-for-first-consumer", false, "make volumes once a pod uses their claims")
	flags.BoolVar(&f.allowExpansion, "allow-expansion", false, "let users ask for larger claims")
	flags.StringVar(&f.dryRun, "dry-run", "none", "none, server or client (without a cluster)")
	flags.StringVarP(&f.output, "output", "o", "", "yaml: print the objects as they are applied, and nothing else")
	cmd.AddCommand(newClassCheck(o))
	return cmd
}

func (f *makeFlags) run(ctx context.Context, name string) (err error) {
	out, errOut := f.o.Out, f.o.ErrOut
	if !slices.Contains([]string{"none", "server", "client"}, f.dryRun) {
		return fmt.Errorf("--dry-run=%s: write none, server or client", f.dryRun)
	}
	if f.output != "" && f.output != "yaml" {
		return fmt.Errorf("--output=%s: write yaml, or leave it out", f.output)
	}
	c, err := f.class(name)
	if err != nil {
		return err
	}
	objects, err := c.Objects()
	if err != nil {
		return err
	}
	if f.dryRun != "client" {
		if c.Place, err = f.o.place(ctx); err != nil {
			return err
		}
		if objects, err = c.Objects(); err != nil {
			return err
		}
	}
	if f.dryRun != "client" {
		if err := f.apply(ctx, out, name, objects); err != nil {
			return err
		}
	}
	for _, lack := range c.Lacks() {
		if _, err := fmt.Fprintln(errOut, "not granted:", lack); err != nil {
			return err
		}
	}
	if f.output == "yaml" {
		return printObjects(out, objects)
	}
	if f.dryRun == "client" {
		for _, o := range objects {
			if _, err := fmt.Fprintf(out, "%s (dry run)\n", o); err != nil {
				return err
			}
		}
	}
	_, err = fmt.Fprintln(out, c.Granted())
	return err
}

func (f *makeFlags) apply(ctx context.Context, out io.Writer, name string, objects []class.Object) error {
	cluster, err := f.o.classes()
	if err != nil {
		return err
	}
	done := "serverside-applied"
	if f.dryRun == "server" {
		done += " (server dry run)"
	}
	for _, o := range objects {
		if _, err := cluster.Apply(ctx, name, o, f.dryRun == "server"); err != nil {
			return err
		}
		if f.output == "" {
			if _, err := fmt.Fprintf(out, "%s %s\n", o, done); err != nil {
				return err
			}
		}
	}
	return nil
}

func printObjects(out io.Writer, objects []class.Object) error {
	for i, o := range objects {
		text, err := o.YAML()
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// class is the class that the flags describe.
func (f *makeFlags) class(name string) (class.Class, error) {
	data, err := f.data()
	if err != nil {
		return class.Class{}, err
	}
	parameters, err := pairs("parameter", f.parameters)
	if err != nil {
		return class.Class{}, err
	}
	policy, mode := corev1.PersistentVolumeReclaimPolicy(f.reclaimPolicy), storagev1.VolumeBindingImmediate
	if policy != corev1.PersistentVolumeReclaimDelete && policy != corev1.PersistentVolumeReclaimRetain {
		return class.Class{}, fmt.Errorf("--reclaim-policy=%s: write Delete or Retain", policy)
	}
	if f.waitForConsumer {
		mode = storagev1.VolumeBindingWaitForFirstConsumer
	}
	c := class.Class{Name: name, Place: f.o.placeOffline(), ServiceAccount: f.account, Data: data, Export: f.export, Grants: map[string]string{},
		Terms: storagev1.StorageClass{Parameters: parameters, ReclaimPolicy: &policy, VolumeBindingMode: &mode}}
	if f.allowExpansion {
		c.Terms.AllowVolumeExpansion = &f.allowExpansion
	}
	for setting, value := range f.grants {
		c.Grants[setting] = *value
	}
	return c, nil
}

// data is the ConfigMap's data. Reserved keys come from flags of their own or from --set, properties from --property.
func (f *makeFlags) data() (map[string]string, error) {
	data, err := pairs("property", f.properties)
	if err != nil {
		return nil, err
	}
	settings, err := pairs("set", f.settings)
	if err != nil {
		return nil, err
	}
	for key, option := range map[string]string{"plugin-name": "--provisioner-name", "service-account-name": "--service-account"} {
		if _, given := settings[key]; given {
			return nil, fmt.Errorf("--set: %s has an option of its own, %s", key, option)
		}
	}
	scripts, err := f.readScripts()
	if err != nil {
		return nil, err
	}
	for _, from := range []struct {
		flag string
		data map[string]string
	}{{"--set", settings}, {"--script-dir, --provision, --delete or --expand", scripts}, {"--image", map[string]string{"image": f.image}}} {
		for key, value := range from.data {
			if value == "" && key == "image" {
				continue
			}
			if _, twice := data[key]; twice {
				return nil, fmt.Errorf("%s: key %s is given twice", from.flag, key)
			}
			data[key] = value
		}
	}
	if _, imaged := data["image"]; !imaged && len(scripts) > 0 {
		data["image"], data["flexctl"] = scriptImage, "in-image"
	}
	return data, nil
}

func (f *makeFlags) readScripts() (map[string]string, error) {
	files := map[string]string{}
	if f.scriptDir != "" {
		for name := range f.scripts {
			for _, file := range []string{name, name + ".sh"} {
				path := filepath.Join(f.scriptDir, file)
				if _, err := os.Stat(path); err == nil {
					files[name] = path
				}
			}
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("--script-dir=%s: it has no file provision or provision.sh", f.scriptDir)
		}
	}
	for name, file := range f.scripts {
		if *file != "" {
			files[name] = *file
		}
	}
	scripts := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(files[name])
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
		scripts[name] = string(text)
	}
	return scripts, nil
}

func pairs(flag string, list []string) (map[string]string, error) {
	data := map[string]string{}
	for _, pair := range list {
		key, value, found := strings.Cut(pair, "=")
		if _, twice := data[key]; !found || key == "" || twice {
			return nil, fmt.Errorf("--%s=%s: write KEY=VALUE, each key once", flag, key)
		}
		data[key] = value
	}
	return data, nil
}

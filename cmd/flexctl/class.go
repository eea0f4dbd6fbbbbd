package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/class"
)

// scriptImage is one that runs inline scripts, and has flexctl.
const scriptImage = "docker.io/flex-provisioner/shell:dev"

// grants are flags and the settings of the allow-list that they write.
var grants = []struct{ flag, setting, help string }{
	{"volume-types", "volumeTypes", "the types of volumes that its pods may make, such as nfs,csi (required)"},
	{"nfs-exports", "nfsExports", "server:/directory that nfs volumes stay below"},
	{"path-prefixes", "pathPrefixes", "directories that hostPath and local volumes stay below"},
	{"csi-drivers", "csiDrivers", "drivers that csi volumes may have"},
	{"secret-namespaces", "secretNamespaces", "namespaces of Secrets that volumes may refer to"},
	{"mount-options", "mountOptions", "mount options that volumes may have"},
	{"privileges", "privileges", "what its pods may have beyond Pod Security's level restricted, such as root,capability/SYS_ADMIN"},
	{"host-paths", "hostPaths", "directories of nodes that its pods may mount, by the key host-path"},
}

type classFlags struct {
	place               class.Place
	kubeconfig, context string
}

func (f *classFlags) add(flags *pflag.FlagSet) {
	f.place = class.Default()
	flags.StringVar(&f.place.Provisioner, "provisioner", f.place.Provisioner, "the dispatcher's --provisioner-name")
	flags.StringVar(&f.place.Namespace, "provisioners-namespace", f.place.Namespace, "where ConfigMaps and provisioner pods are")
	flags.StringVar(&f.place.System, "system-namespace", f.place.System, "where the ConfigMap flex-pv-policy is")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "the kubeconfig (default: $KUBECONFIG, else ~/.kube/config)")
	flags.StringVar(&f.context, "context", "", "the context of the kubeconfig (default: its current one)")
}

// makeFlags are those that say what a class is.
type makeFlags struct {
	classFlags
	image, scriptDir, account        string
	scripts                          map[string]*string
	properties, settings, parameters []string
	grants                           map[string]*string
	reclaimPolicy, dryRun, output    string
	waitForConsumer, allowExpansion  bool
}

func newClassCommand() *cobra.Command {
	f := &makeFlags{scripts: map[string]*string{}, grants: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "class NAME --image IMAGE|--script-dir DIRECTORY|--provision FILE --delete FILE --volume-types TYPES",
		Short: "Make a storage class, or change one, on the cluster of your kubeconfig",
		Long: `Applies all that the storage class NAME consists of: the StorageClass, its ConfigMap, the ServiceAccount of its pods, and what
that may create in the ConfigMap flex-pv-policy. It applies them server-side as the field manager flexctl-class-NAME: it changes what
it wrote before, and nothing of others. A field that somebody else has given another value is an error. Called again without an
option, it takes back what the option wrote. In the end it says what it granted, and what the ConfigMap asks for beyond that.

It writes as the caller, who needs the verb administer on provisioners.flex-provisioner.io in both namespaces.`,
		Example: `  flexctl class disks --image registry.example/disks:v1 --property server=10.0.0.1 --volume-types nfs --nfs-exports 10.0.0.1:/srv
  flexctl class disks --script-dir disks --set mount-claims=disks-export:/export --volume-types nfs --dry-run=client -o yaml
  flexctl class check disks`,
		DisableFlagsInUseLine: true,
		Args:                  atMost(1, "one class at a time"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("flexctl class: the name is missing; it names the StorageClass and the ConfigMap")
			}
			if err := f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0]); err != nil {
				return fmt.Errorf("flexctl class %s: %w", args[0], err)
			}
			return nil
		},
	}
	flags := cmd.Flags()
	f.add(flags)
	flags.StringVar(&f.image, "image", "", "the image that does the work (default with scripts: "+scriptImage+")")
	flags.StringVar(&f.scriptDir, "script-dir", "", "a directory with the scripts provision and delete, and expand if it can, each as NAME or NAME.sh")
	for _, script := range []string{"provision", "delete", "expand"} {
		f.scripts[script] = flags.String(script, "", "the file with the script that does it")
	}
	flags.StringVar(&f.account, "service-account", "", "the ServiceAccount of its pods (default: NAME)")
	flags.StringArrayVar(&f.properties, "property", nil, "KEY=VALUE: a property; may be repeated, as the next two")
	flags.StringArrayVar(&f.settings, "set", nil, "KEY=VALUE: another key of the ConfigMap, such as secrets=NAME or timeout=20m")
	flags.StringArrayVar(&f.parameters, "parameter", nil, "KEY=VALUE: a parameter of the StorageClass")
	for _, grant := range grants {
		f.grants[grant.setting] = flags.String(grant.flag, "", grant.help)
	}
	flags.StringVar(&f.reclaimPolicy, "reclaim-policy", string(corev1.PersistentVolumeReclaimDelete), "Delete or Retain")
	flags.BoolVar(&f.waitForConsumer, "wait-for-first-consumer", false, "make volumes once a pod uses their claims")
	flags.BoolVar(&f.allowExpansion, "allow-expansion", false, "let users ask for larger claims")
	flags.StringVar(&f.dryRun, "dry-run", "none", "none, server (the API server tries it) or client (no cluster is needed)")
	flags.StringVarP(&f.output, "output", "o", "", "yaml: print the objects as they are applied, and nothing else")
	cmd.AddCommand(newClassCheckCommand())
	return cmd
}

func (f *makeFlags) run(ctx context.Context, out, errOut io.Writer, name string) error {
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
	cluster, err := class.Connect(f.kubeconfig, f.context)
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

// class is what the flags say.
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
	c := class.Class{Name: name, Place: f.place, ServiceAccount: f.account, Data: data, Grants: map[string]string{},
		Terms: storagev1.StorageClass{Parameters: parameters, ReclaimPolicy: &policy, VolumeBindingMode: &mode}}
	if f.allowExpansion {
		c.Terms.AllowVolumeExpansion = &f.allowExpansion
	}
	for setting, value := range f.grants {
		c.Grants[setting] = *value
	}
	return c, nil
}

// data are the ConfigMap's keys: what the dispatcher understands comes from flags of its own, or from --set.
func (f *makeFlags) data() (map[string]string, error) {
	data, err := pairs("property", f.properties)
	if err != nil {
		return nil, err
	}
	settings, err := pairs("set", f.settings)
	if err != nil {
		return nil, err
	}
	for key, option := range map[string]string{"plugin-name": "--provisioner", "service-account-name": "--service-account"} {
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

func newClassCheckCommand() *cobra.Command {
	f := &classFlags{}
	cmd := &cobra.Command{
		Use:   "check NAME",
		Short: "Say what an existing storage class lacks",
		Long: `Looks at the StorageClass, its ConfigMap and the faults of that, the ServiceAccount with its right and its grants, and the
Secrets and claims that its pods mount. It says what is missing, with the remedy, and what you may not see, and changes nothing.
It ends with 0 if nothing is missing.`,
		Example:               "  flexctl class check silver",
		DisableFlagsInUseLine: true,
		Args:                  atMost(1, "one class at a time"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("flexctl class check: the name of the StorageClass is missing")
			}
			if err := f.check(cmd.Context(), cmd.OutOrStdout(), args[0]); err != nil {
				return fmt.Errorf("flexctl class check %s: %w", args[0], err)
			}
			return nil
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func (f *classFlags) check(ctx context.Context, out io.Writer, name string) error {
	cluster, err := class.Connect(f.kubeconfig, f.context)
	if err != nil {
		return err
	}
	report, err := cluster.Check(ctx, name, f.place)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, what := range report.Missing {
		fmt.Fprintf(&text, "missing: %s\n", what)
	}
	for _, what := range report.Unknown {
		fmt.Fprintf(&text, "not checked: %s\n", what)
	}
	if len(report.Grants) > 0 {
		grants, err := yaml.Marshal(report.Grants)
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "granted:\n  %s\n", strings.ReplaceAll(strings.TrimSpace(string(grants)), "\n", "\n  "))
	}
	if _, err := io.WriteString(out, text.String()); err != nil {
		return err
	}
	if n := len(report.Missing); n > 0 {
		return fmt.Errorf("%d things are missing", n)
	}
	return nil
}

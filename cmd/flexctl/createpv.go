package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/internal/version"
	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// maxInput is the limit in bytes on the input. An object of the API has at most 1.5 MiB.
const maxInput = 1 << 20

// maxCreateTimeout is the longest time that a pod retries the creation. After that, another attempt is better.
const maxCreateTimeout = 2 * time.Minute

// labelHostname is the label that holds the name of a node in most clusters.
const labelHostname = "kubernetes.io/hostname"

type createOptions struct {
	root         string
	file         string
	source       sourceFlags
	nodeAffinity string
	dryRun       bool
	timeout      time.Duration
}

func newCreateCommand(root string) *cobra.Command {
	o := createOptions{root: root}
	cmd := &cobra.Command{
		Use:   "create-pv",
		Short: "Create the claim's PersistentVolume from a volume source",
		Long: `The volume source comes from one of --nfs, --iscsi, --local and --csi, or from YAML or JSON on stdin: one source as a
PersistentVolume's spec has it, and where wanted

  capacity       the real size, where it came out larger than requested: 12Gi, or a number of bytes
  nodeAffinity   as a PersistentVolume's spec has it
  mountOptions   added to those of the class
  annotations    notes for your own delete, under a domain of yours

Name, size, claim, class and everything else come from the request. Running it again is success. What passes by itself, an
API server that is busy or restarts, is tried again until --timeout; what the API server or a policy refuses is not.

--node-affinity pins the volume. A PersistentVolume selects nodes by label only, so "self" and a bare NODE mean the
label kubernetes.io/hostname. "self" is the label of the pod's node, as $FLEX_NODE_HOSTNAME has it, or else the node's
name. Where label and name differ (kubectl get nodes -L kubernetes.io/hostname), a class needs node-local and
volumeBindingMode WaitForFirstConsumer for that, or give LABEL=VALUE or a nodeAffinity.`,
		Example: `  flexctl create-pv --nfs "10.0.0.1:/exports/$FLEX_PV_NAME" --mount-option nfsvers=4.2
  flexctl create-pv --iscsi "10.0.0.1:3260,iqn.2026-01.com.example:$FLEX_PV_NAME,1" --fs-type xfs
  flexctl create-pv --local "/srv/$FLEX_PV_NAME"
  flexctl create-pv --csi csi.example.com,lun-7 --annotation example.com/pool=gold
  echo "fc: {targetWWNs: [500a0982991b8dc5], lun: 2}" | flexctl create-pv
  flexctl create-pv --dry-run -f source.yaml`,
		Args: atMost(0, "the volume source is read from flags, from stdin or by -f FILE"),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	o.source.add(flags)
	flags.StringVarP(&o.file, "file", "f", "", "read the volume source from this `FILE`; stdin, or -, where no flag gives it")
	flags.StringVar(&o.nodeAffinity, "node-affinity", "", "self, NODE or LABEL=VALUE: the only nodes that can mount the volume")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print the PersistentVolume instead of creating it")
	flags.DurationVar(&o.timeout, "timeout", 0, "how long to try while the API server does not answer well\n(default: half of the pod's time, at most 2m)")
	return cmd
}

func (o createOptions) run(cmd *cobra.Command) error {
	request, err := bare.LoadRequest(o.root)
	if err != nil {
		return err
	}
	volume, err := o.volume(request, cmd.InOrStdin())
	if err != nil {
		return err
	}
	if o.dryRun {
		return printVolume(cmd.OutOrStdout(), volume)
	}
	client, err := bare.NewClient(o.root, "flexctl/"+version.String(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	// A shell that is the pod's first process does not forward SIGTERM, so only a timeout ends the wait.
	timeout := o.timeout
	if timeout == 0 {
		timeout = createTimeout(request)
	}
	ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("gave up after %s", timeout))
	defer cancel()
	body, err := json.Marshal(volume)
	if err != nil {
		return fmt.Errorf("encode persistentvolume %s: %w", request.VolumeName, err)
	}
	created, err := bare.Create(ctx, request.VolumeName, func(ctx context.Context) error { return client.Create(ctx, body) })
	if err != nil {
		return err
	}
	result := "exists already"
	if created {
		result = "created"
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "persistentvolume/%s %s\n", request.VolumeName, result)
	return err
}

// createTimeout is half of the pod's time. The rest is for the pod to report why it failed.
func createTimeout(request contract.Request) time.Duration {
	half := time.Duration(request.TimeoutSeconds) * time.Second / 2
	if half <= 0 {
		return maxCreateTimeout
	}
	return min(half, maxCreateTimeout)
}

func (o createOptions) volume(request contract.Request, stdin io.Reader) (object, error) {
	if request.Operation != contract.Provision {
		return nil, fmt.Errorf("create-pv: the operation is %s; only provision creates a volume", request.Operation)
	}
	skeleton, err := loadVolume(o.root, request)
	if err != nil {
		return nil, err
	}
	f, err := o.input(stdin)
	if err != nil {
		return nil, fmt.Errorf("create-pv: %w", err)
	}
	fsType, err := bare.FSType(request)
	if err != nil {
		return nil, fmt.Errorf("create-pv: %w", err)
	}
	if location := bare.ReportedLocation(o.root); location != "" {
		if skeleton.Metadata.Annotations == nil {
			skeleton.Metadata.Annotations = map[string]string{}
		}
		skeleton.Metadata.Annotations[contract.AnnLocation] = location
	}
	volume, err := newVolume(skeleton, f, fsType)
	if err != nil {
		return nil, fmt.Errorf("create-pv: %w", err)
	}
	return volume, nil
}

// input merges the flags and the input.
func (o createOptions) input(stdin io.Reader) (v volumeInput, err error) {
	if o.source.isSet() {
		if o.file != "" {
			return v, errors.New("both a source by a flag and -f are given; keep one")
		}
		v.sources, err = o.source.source()
	} else {
		v, err = o.read(stdin)
	}
	if err == nil {
		err = o.source.complete(&v)
	}
	if err != nil {
		return v, err
	}
	affinity := o.nodeAffinity
	if affinity == "" && o.source.local != "" {
		affinity = "self"
	}
	if affinity == "" {
		return v, nil
	}
	if v.nodeAffinity != nil {
		return v, errors.New("both --node-affinity and nodeAffinity are given; keep one")
	}
	v.nodeAffinity, err = parseNodeAffinity(affinity, cmp.Or(os.Getenv("FLEX_NODE_HOSTNAME"), os.Getenv("FLEX_NODE")))
	return v, err
}

func (o createOptions) read(stdin io.Reader) (volumeInput, error) {
	name := "the input"
	if o.file != "" && o.file != "-" {
		name = o.file
		file, err := os.Open(o.file)
		if err != nil {
			return volumeInput{}, fmt.Errorf("read volume source: %w", err)
		}
		defer file.Close()
		stdin = file
	}
	data, err := io.ReadAll(io.LimitReader(stdin, maxInput+1))
	if err != nil {
		return volumeInput{}, fmt.Errorf("read volume source: %w", err)
	}
	if len(data) > maxInput {
		return volumeInput{}, fmt.Errorf("the input is longer than %d bytes; it holds one volume source", maxInput)
	}
	return parseVolume(name, data)
}

func parseNodeAffinity(flag, self string) (object, error) {
	label, value, found := strings.Cut(flag, "=")
	switch {
	case flag == "self" && self == "":
		return nil, errors.New("--node-affinity self: FLEX_NODE is empty; is this a provisioner pod?")
	case flag == "self":
		label, value = labelHostname, self
	case !found:
		label, value = labelHostname, flag
	}
	if faults := content.IsLabelKey(label); len(faults) > 0 {
		return nil, fmt.Errorf("--node-affinity: label %q: %s", label, strings.Join(faults, "; "))
	}
	if faults := content.IsLabelValue(value); len(faults) > 0 || value == "" {
		return nil, fmt.Errorf("--node-affinity: %q is no value of the label %s: %s", value, label,
			strings.Join(append(faults, "give self, NODE or LABEL=VALUE"), "; "))
	}
	requirement := object{"key": label, "operator": "In", "values": []any{value}}
	return object{"required": object{"nodeSelectorTerms": []any{object{"matchExpressions": []any{requirement}}}}}, nil
}

func printVolume(out io.Writer, volume object) error {
	text, err := yaml.Marshal(volume)
	if err != nil {
		return fmt.Errorf("print persistentvolume: %w", err)
	}
	_, err = out.Write(text)
	return err
}

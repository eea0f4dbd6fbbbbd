package sdk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// Request is what the pod is asked: see contract.Request.
type Request = contract.Request

// Provisioner makes and removes storage. Both methods may be killed at any instruction and are then called again in a
// new pod, perhaps while the dying predecessor still runs: "already there" and "already gone" are successes, and
// "unreachable" is neither. Errors made by Refuse, NotHere and TryAgain choose what happens next; after every other error
// the operation is tried again with growing delays.
type Provisioner interface {
	// Provision makes the storage that request.VolumeName names, or finds the one that an earlier attempt made, and says
	// how to mount it. The PersistentVolume itself is made by Main.
	Provision(ctx context.Context, request Request) (*Volume, error)
	// Delete removes the storage once it has proved that it is the claim's. volume is nil for an undo: the claim went
	// away before there was a volume, so storage may exist, wholly, half or not at all, and only request.VolumeName and
	// request.Identity say where. Nobody asks again after a nil error.
	Delete(ctx context.Context, request Request, volume *corev1.PersistentVolume) error
}

// Expander is a Provisioner that can also expand. Its class says so by the key expandable: "true", else it is never asked.
type Expander interface {
	// Expand makes the storage of the volume at least request.SizeBytes large, which is more than request.CurrentSizeBytes.
	// It may be so already, by an attempt whose end was lost: that is a success. A nil error is believed: the volume and
	// the claim get request.SizeBytes. Refuse promises that nothing was changed. The storage is in use meanwhile.
	Expand(ctx context.Context, request Request, volume *corev1.PersistentVolume) error
}

// Lister is a Provisioner whose storage can be audited. The class's ConfigMap says so by listable: "true".
type Lister interface {
	// List returns what the backend has of this cluster's volumes, where request.Identity says. It changes nothing. An
	// incomplete answer is an error. request names no claim and no volume.
	List(ctx context.Context, request Request) ([]Storage, error)
}

// Storage is one volume as the backend has it: see contract.Storage.
type Storage = contract.Storage

func list(ctx context.Context, p Provisioner, request Request, out io.Writer) error {
	lister, ok := p.(Lister)
	if !ok {
		return Refuse(fmt.Errorf("operation %q: this provisioner cannot list; remove the ConfigMap's key listable", request.Operation))
	}
	storage, err := lister.List(ctx, request)
	if err != nil {
		return err
	}
	for _, s := range storage {
		if _, err := fmt.Fprintln(out, s.Line()); err != nil {
			return fmt.Errorf("print %s: %w", s.Name, err)
		}
	}
	return nil
}

// Volume is what a provisioner adds to the PersistentVolume; everything else of it is settled by the claim and its class.
type Volume struct {
	// Source tells the kubelet how to mount the storage. Exactly one of its fields is set.
	Source corev1.PersistentVolumeSource
	// Capacity is the real size where the storage came out larger than requested. Zero: as requested.
	Capacity resource.Quantity
	// NodeAffinity limits the nodes on which the volume can be mounted; see NodeAffinity. Nil: any node.
	NodeAffinity *corev1.VolumeNodeAffinity
	// MountOptions are added to those of the class.
	MountOptions []string
	// Annotations are notes for the author's own Delete, under a domain of the author's: "example.com/lun".
	Annotations map[string]string
}

// Main does what the pod was started for and exits with the contract's code. On SIGTERM the context of the operation ends;
// the kubelet waits for the rest of the pod's grace period before it kills.
func Main(p Provisioner) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	root := os.Getenv(RootEnv)
	code := Report(root, Run(ctx, root, p), os.Stderr)
	stop()
	os.Exit(code)
}

// Run is Main without its exit. root stands before the contract's paths and is empty inside a pod.
func Run(ctx context.Context, root string, p Provisioner) error {
	request, err := LoadRequest(root)
	if err != nil {
		return err
	}
	if request.Operation == contract.List {
		return list(ctx, p, request, os.Stdout)
	}
	volume, err := LoadVolume(root, request)
	if err != nil {
		return err
	}
	switch request.Operation {
	case contract.Provision:
		return provision(ctx, root, p, request, volume)
	case contract.Delete:
		return p.Delete(ctx, request, volume)
	}
	known := []string{string(contract.Provision), string(contract.Delete)}
	if expander, ok := p.(Expander); ok {
		if request.Operation == contract.Expand {
			return expander.Expand(ctx, request, volume)
		}
		known = append(known, string(contract.Expand))
	}
	return Refuse(fmt.Errorf("operation %q: this provisioner knows only %s", request.Operation, strings.Join(known, ", ")))
}

func provision(ctx context.Context, root string, p Provisioner, request Request, skeleton *corev1.PersistentVolume) error {
	// First of all the client: without one nothing could come of the storage.
	client, err := NewClient(root)
	if err != nil {
		return err
	}
	made, err := p.Provision(ctx, request)
	if err != nil {
		return err
	}
	if made == nil {
		return errors.New("the provisioner returned neither a volume nor an error")
	}
	if err := made.SetFSType(request); err != nil {
		return err
	}
	volume, err := NewVolume(skeleton, *made)
	if err != nil {
		return err
	}
	_, err = CreateVolume(ctx, client, volume)
	return err
}

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
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Request is the pod's request: see contract.Request.
type Request = contract.Request

// Provisioner makes and removes storage. The pod may be killed at any instruction. The method is then called again in a new pod, perhaps
// while the killed one still runs. So "already there" and "already gone" are successes, but "unreachable" is not. The errors of Refuse,
// NotHere and TryAgain determine what happens next. After every other error the operation is retried with backoff.
type Provisioner interface {
	// Provision makes the storage request.VolumeName, or finds the storage that an earlier attempt made, and returns how to mount
	// it. Main creates the PersistentVolume.
	Provision(ctx context.Context, request Request) (*Volume, error)
	// Delete removes the storage after it has verified that it is the claim's. volume is nil for an undo: the claim was deleted
	// before there was a volume, so storage may exist, entirely, in part or not at all. Only request.VolumeName and
	// request.Identity find it. After a nil error Delete is not called again.
	Delete(ctx context.Context, request Request, volume *corev1.PersistentVolume) error
}

// Expander is a Provisioner that can expand volumes. Expand is called only if the class's ConfigMap has the key expandable: "true".
type Expander interface {
	// Expand makes the storage of the volume at least request.SizeBytes large, which is more than request.CurrentSizeBytes. It is a
	// success if the storage has that size already, by an attempt whose outcome was lost. After a nil error the volume and the
	// claim get request.SizeBytes without a further check. Refuse promises that nothing was changed. The storage is in use.
	Expand(ctx context.Context, request Request, volume *corev1.PersistentVolume) error
}

// Snapshotter is a Provisioner that takes, removes and restores snapshots. Its methods are called only if the class's ConfigMap has the
// key snapshots: "true". Its Provision makes the volume with the data of the snapshot request.Source.Snapshot where that is not empty,
// and refuses a snapshot that does not exist. It never makes an empty volume then.
type Snapshotter interface {
	// Snapshot takes the snapshot request.Snapshot.Name of the volume, which may be in use. After a nil error it is whole, and can be
	// restored from. TryAgain says that it is not ready yet. A snapshot of the name that is whole is a success. One that an
	// attempt left half made is completed or removed, and never taken for whole.
	Snapshot(ctx context.Context, request Request, volume *corev1.PersistentVolume) error
	// DeleteSnapshot removes the snapshot request.Snapshot.Name, whole or half made. After a nil error it is gone, or never was. volume
	// is what it is a snapshot of, which need not exist any more. It is nil where no record says so.
	DeleteSnapshot(ctx context.Context, request Request, volume *corev1.PersistentVolume) error
}

// Attacher is a Provisioner of volumes that a node reaches only while the storage system lets it. Its methods are called only if the
// class's ConfigMap has the key attachments: "true", for each VolumeAttachment that Kubernetes makes.
type Attacher interface {
	// Attach lets the node request.Attachment.Node reach the volume, by what its Connector says of it. It returns what the node side
	// needs to know, which every administrator can read: no secrets. It is a success if the node reaches the volume already.
	Attach(ctx context.Context, request Request, volume *corev1.PersistentVolume) (map[string]string, error)
	// Detach takes the volume away from the node, which may have lost its power and still write once it has it back. After a nil error
	// the node cannot. It is a success if it could not before.
	Detach(ctx context.Context, request Request, volume *corev1.PersistentVolume) error
}

// Lister is a Provisioner whose storage can be audited. List is called only if the class's ConfigMap has the key listable: "true".
type Lister interface {
	// List returns the storage of this cluster's volumes on the backend that request.Identity names. It changes nothing. It returns an
	// error rather than an incomplete list. request has no claim and no volume.
	List(ctx context.Context, request Request) ([]Storage, error)
}

// Storage is a volume on the backend: see contract.Storage.
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

// Volume is what a provisioner adds to the PersistentVolume. The claim and its class determine the other fields.
type Volume struct {
	// Source is how the kubelet mounts the storage. Exactly one of its fields is set.
	Source corev1.PersistentVolumeSource
	// Capacity is the real size if the storage is larger than requested. Zero means the requested size.
	Capacity resource.Quantity
	// NodeAffinity limits the nodes that can mount the volume; see NodeAffinity. Nil means any node.
	NodeAffinity *corev1.VolumeNodeAffinity
	// MountOptions are added to those of the class.
	MountOptions []string
	// Annotations are for the provisioner's own Delete, with a domain of the author, such as "example.com/lun".
	Annotations map[string]string
}

// Main serves the pod's request and exits with a code of the contract. On SIGTERM the context of the operation ends. The kubelet kills the
// container at the end of the pod's grace period.
func Main(p Provisioner) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	root := os.Getenv(RootEnv)
	code := Report(root, Run(ctx, root, p), os.Stderr)
	stop()
	os.Exit(code)
}

// Run is Main without the exit. root is put before the contract's paths. It is empty inside a pod.
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
	for _, more := range optional(root, p) {
		if request.Operation == more.operation {
			return more.do(ctx, request, volume)
		}
		known = append(known, string(more.operation))
	}
	return Refuse(fmt.Errorf("operation %q: this provisioner knows only %s", request.Operation, strings.Join(known, ", ")))
}

// ability is an operation that only some provisioners have.
type ability struct {
	operation contract.Operation
	do        func(context.Context, Request, *corev1.PersistentVolume) error
}

func optional(root string, p Provisioner) (abilities []ability) {
	if e, ok := p.(Expander); ok {
		abilities = append(abilities, ability{contract.Expand, e.Expand})
	}
	if s, ok := p.(Snapshotter); ok {
		abilities = append(abilities, ability{contract.Snapshot, s.Snapshot}, ability{contract.DeleteSnapshot, s.DeleteSnapshot})
	}
	if a, ok := p.(Attacher); ok {
		attach := func(ctx context.Context, request Request, volume *corev1.PersistentVolume) error {
			return publish(ctx, root, a, request, volume)
		}
		abilities = append(abilities, ability{contract.Attach, attach}, ability{contract.Detach, a.Detach})
	}
	return abilities
}

// publish attaches the volume, and writes what the node has to know of that into the VolumeAttachment.
func publish(ctx context.Context, root string, a Attacher, request Request, volume *corev1.PersistentVolume) error {
	client, err := bare.NewClient(root, rest.DefaultKubernetesUserAgent(), os.Stderr)
	if err != nil {
		return err
	}
	metadata, err := a.Attach(ctx, request, volume)
	if err != nil {
		return err
	}
	return bare.Publish(ctx, client, request, metadata)
}

func provision(ctx context.Context, root string, p Provisioner, request Request, skeleton *corev1.PersistentVolume) error {
	// The client is made first, since storage without a PersistentVolume is of no use.
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
	if location := bare.ReportedLocation(root); location != "" {
		volume.Annotations[contract.AnnLocation] = location
	}
	_, err = CreateVolume(ctx, client, volume)
	return err
}

package sim

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// container is the author's image, at work: it keeps the contract, except where the plan says that it does not.
type container struct {
	w       *World
	run     *run
	pod     *corev1.Pod
	process *process
	request contract.Request
	// ctx ends with SIGKILL, asked with SIGTERM.
	ctx, asked context.Context
	kill       context.CancelFunc
	terminate  context.CancelFunc
	// location is the line that is in the termination file before any message.
	location string
	// place is the server whose export it has mounted.
	place string
}

func newContainer(w *World, r *run) *container {
	c := &container{w: w, run: r, pod: r.pod, process: w.process("pod", r.pod.Name)}
	if err := json.Unmarshal([]byte(r.pod.Annotations[contract.AnnRequest]), &c.request); err != nil {
		w.violate("pod %s has an unreadable request: %v", r.pod.Name, err)
	}
	c.ctx, c.kill = context.WithCancel(w.ctx)
	c.asked, c.terminate = context.WithCancel(c.ctx)
	if c.chance("stubborn") {
		c.asked = c.ctx
	}
	c.place, _ = w.mounted(r.pod)
	context.AfterFunc(c.ctx, c.process.kill)
	c.process.refuse = c.refusal
	return c
}

// chance draws what goes wrong with this container.
func (c *container) chance(what string) bool {
	if !c.w.faulty() || !c.w.dice.chance(c.w.plan.Rates[what], what, c.pod.Name) {
		return false
	}
	c.w.drawn(what)
	return true
}

// refusal: nothing gets through from a node that is cut off, and the pod's token dies with the pod.
func (c *container) refusal() error {
	if c.run.n.isCut() {
		return errUnreachable
	}
	pod, ok := apiserver.Get[*corev1.Pod](c.w.server, apiserver.Pods, namespace, c.pod.Name)
	if !ok || pod.UID != c.pod.UID || pod.DeletionTimestamp != nil && time.Since(pod.DeletionTimestamp.Time) > time.Minute {
		return apiserver.Status(401, metav1.StatusReasonUnauthorized, "Unauthorized")
	}
	return nil
}

var errKilled = errors.New("killed")

// setLocation is sdk.SetLocation.
func (c *container) setLocation(location string) error {
	c.location, _ = contract.LocationLine(location)
	return nil
}

// step is a moment at which the container may be killed, or hear that it should stop.
func (c *container) step(from, to time.Duration, what string) error {
	if c.chance("pod-killed") {
		c.w.trace.add(c.pod.Name, "is killed before it can %s", what)
		return errKilled
	}
	timer := time.NewTimer(c.w.dice.between(from, to, "step", what, c.pod.Name))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.asked.Done():
		if c.ctx.Err() != nil {
			return errKilled
		}
		return errors.New("terminated")
	}
}

func (c *container) work() exit {
	err := map[contract.Operation]func() error{
		contract.Provision: c.provision, contract.Delete: c.delete, contract.Expand: c.expand,
		contract.Snapshot: c.snapshot, contract.DeleteSnapshot: c.deleteSnapshot,
		contract.Attach: c.attach, contract.Detach: c.detach}[c.request.Operation]()
	if errors.Is(err, errKilled) || c.ctx.Err() != nil {
		return exit{code: 137, reason: "Error", ran: true}
	}
	if err == nil {
		return exit{reason: "Completed", ran: true}
	}
	e := exit{code: int32(sdk.ExitCode(err)), reason: "Error", message: sdk.Message(err), ran: true}
	if e.code == contract.ExitDone+1 && c.chance("oom") {
		return exit{code: 137, reason: "OOMKilled", ran: true}
	}
	return e
}

func (c *container) provision() error {
	if err := c.begin(c.refuses); err != nil {
		return err
	}
	made, err := c.storage().provision(c)
	if err != nil {
		return err
	}
	if c.chance("exit-1") {
		return errors.New("something went wrong after the storage was made")
	}
	if c.chance("no-volume") {
		return nil
	}
	if err := c.step(time.Millisecond, time.Second, "create the volume"); err != nil {
		return err
	}
	return c.createVolume(*made)
}

// begin is how every operation begins.
func (c *container) begin(refuses func() error) error {
	if err := c.step(10*time.Millisecond, 2*time.Second, "begin"); err != nil {
		return err
	}
	if c.movedAway() {
		return errors.New("the mark is that of another storage")
	}
	if err := refuses(); err != nil {
		return err
	}
	if c.chance("slow") {
		return c.step(30*time.Second, 2*time.Minute, "dawdle")
	}
	return nil
}

// storage is the author's part of the work.
func (c *container) storage() author {
	if c.w.cinder != nil && c.w.madeFrom(c.pod).Cinder {
		return c.w.cinder
	}
	return c.w.backend
}

// madeFrom is the class whose ConfigMap the pod was made from: its image and where that works. An administrator may have moved the volume to
// another class since.
func (w *World) madeFrom(pod *corev1.Pod) Class {
	config, _, _ := strings.Cut(pod.Annotations[contract.AnnConfig], "/")
	return w.plan.class(config)
}

// author is what an image does beside keeping the contract.
type author interface {
	provision(*container) (*sdk.Volume, error)
	remove(*container) error
}

// refuses draws the exit codes that promise that nothing was made.
func (c *container) refuses() error {
	switch {
	case c.chance("exit-64"):
		return sdk.Refuse(errors.New("refused by chaos"))
	case c.chance("exit-69"):
		return sdk.NotHere(errors.New("not here by chaos"))
	case c.chance("exit-75"):
		return sdk.TryAgain(errors.New("busy by chaos"))
	case c.chance("exit-1"):
		return errors.New("failed by chaos before anything was made")
	}
	return nil
}

func (c *container) createVolume(made sdk.Volume) error {
	skeleton := &corev1.PersistentVolume{}
	if err := yaml.Unmarshal([]byte(c.pod.Annotations[contract.AnnVolume]), skeleton); err != nil {
		c.w.violate("pod %s has an unreadable volume: %v", c.pod.Name, err)
		return err
	}
	volume, err := sdk.NewVolume(skeleton, made)
	if err != nil {
		return err
	}
	if c.chance("misfit") {
		switch c.w.dice.roll("misfit-how", c.pod.Name).IntN(3) {
		case 0:
			volume.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("1Mi")
		case 1:
			volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
		case 2:
			volume.Spec.ClaimRef.Name = "another"
		}
	}
	if i := slices.IndexFunc(c.w.plan.Classes, func(o Class) bool { return o.Name != volume.Spec.StorageClassName && !o.Cinder && !o.NodeLocal }); i >= 0 &&
		volume.Spec.NFS != nil && volume.Spec.NodeAffinity == nil && c.chance("other-class") {
		volume.Spec.StorageClassName = c.w.plan.Classes[i].Name
	}
	if c.chance("forged-record") { // an image wants its storage to be looked for elsewhere
		volume.Annotations[contract.AnnIdentity] = `{"properties":{"zone":"forged"},"parameters":{"pool":"forged"}}`
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	_, err = sdk.CreateVolume(c.asked, client, volume)
	return err
}

var podScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.PersistentVolume{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	return scheme
}()

func (c *container) client() (rest.Interface, error) {
	config := c.config()
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(podScheme).WithoutConversion()
	return rest.RESTClientFor(config)
}

// publish is bare.Publish.
func (c *container) publish(metadata map[string]string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	of := c.request.Attachment
	patch, err := json.Marshal([]map[string]any{{"op": "test", "path": "/metadata/uid", "value": of.UID},
		{"op": "add", "path": "/status/attachmentMetadata", "value": metadata}})
	if err != nil {
		return err
	}
	_, err = bare.Create(c.asked, of.Name, func(ctx context.Context) error {
		err := client.Patch(types.JSONPatchType).MaxRetries(0).AbsPath("/apis/storage.k8s.io/v1/volumeattachments", of.Name, "status").
			Body(patch).Do(ctx).Error()
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			return &bare.Answer{Code: int(status.Status().Code), Err: err}
		}
		return err
	})
	return err
}

func (c *container) config() *rest.Config {
	return &rest.Config{Host: "http://apiserver", Transport: c.process, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

func (c *container) delete() error {
	busy := func() error {
		if c.chance("exit-75") {
			return sdk.TryAgain(errors.New("busy by chaos"))
		}
		return nil
	}
	if err := c.begin(busy); err != nil {
		return err
	}
	if err := c.storage().remove(c); err != nil {
		return err
	}
	if c.chance("exit-1") {
		return errors.New("something went wrong after the storage was removed")
	}
	return nil
}

// expand is offered by classes of the backend alone.
func (c *container) expand() error {
	if err := c.begin(c.refuses); err != nil {
		return err
	}
	if err := c.w.backend.expand(c); err != nil {
		return err
	}
	if c.chance("exit-1") {
		return errors.New("something went wrong after the storage was expanded")
	}
	return nil
}

package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// Users run workloads with claims on nodes. Kubernetes' attach-detach controller makes a VolumeAttachment for each, and
// deletes it once the workload has gone. The storage lets a node reach a volume once a pod has attached it.

// attaching are the actions of the theme.
var attaching = []string{"attach-start", "attach-start", "attach-start", "attach-start", "attach-start", "attach-start",
	"attach-start", "attach-start", "attach-stop", "attach-stop", "attach-stop", "attach-move", "attach-move",
	"attach-move", "attach-move", "attach-force", "connector-away", "watch-lag-attachments", "node-dead", "node-gone",
	"claim-create", "claim-create", "claim-delete", "pod-kill", "pod-kill", "pod-delete"}

const (
	stagerISCSI  = "iscsi"
	waitsForHand = "does not exist any more" // in what the status says to administrators
)

// driver is that of volumes of flex-node.
var driver = contract.SnapshotDriver(contract.ProvisionerName)

// staged is for volumes of flex-node.
func staged(v *corev1.PersistentVolume) bool { return v.Spec.CSI != nil && v.Spec.CSI.Driver == driver }

func connectorOf(node string) string { return "iqn.2026-01.com.example:" + node }

// attachments are what users and Kubernetes want on nodes, and what the storage has.
type attachments struct {
	w *World
	// syncing is held while the attach-detach controller looks around.
	syncing sync.Mutex

	mu        sync.Mutex
	workloads map[string]workload                 // by claim
	volumes   map[string]*corev1.PersistentVolume // that have had a VolumeAttachment
	orders    map[types.UID]*order
	reached   map[spot]grant
}

// workload is a pod of a user that has a claim, or several on one node.
type workload struct {
	claim        types.UID
	volume, node string
}

// spot is one volume on one node.
type spot struct{ key, node string }

// order is what became of a VolumeAttachment.
type order struct {
	began, gone time.Time // when its deletion began, and when it was gone
	forced      bool      // an administrator took its finalizer off
}

// grant is what the storage has for a node that it lets reach a volume. It is excused if a leader that knew no better
// ordered it, or an administrator forced its VolumeAttachment away. The dispatcher has to clean it up all the same.
type grant struct {
	pod     string
	excused bool
}

func newAttachments(w *World) *attachments {
	return &attachments{w: w, workloads: map[string]workload{}, volumes: map[string]*corev1.PersistentVolume{},
		orders: map[types.UID]*order{}, reached: map[spot]grant{}}
}

// order is called with mu held.
func (a *attachments) order(uid types.UID) *order {
	if a.orders[uid] == nil {
		a.orders[uid] = &order{}
	}
	return a.orders[uid]
}

// spotOf is called with mu held.
func (a *attachments) spotOf(va *storagev1.VolumeAttachment) (at spot, byPods bool) {
	v := a.volumes[*va.Spec.Source.PersistentVolumeName]
	return spot{keyOf(v), va.Spec.NodeName}, v.Spec.CSI.VolumeAttributes[contract.AttributeStager] != contract.StagerLoop
}

// changed hears of VolumeAttachments, under the server's lock. One says that it is attached only if its node reaches
// the volume. One goes only if its node does not.
func (a *attachments) changed(before, after apiserver.Object) {
	object := after
	if after == nil {
		object = before
	}
	va := object.(*storagev1.VolumeAttachment)

	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.order(va.UID)
	at, byPods := a.spotOf(va)
	has, reaches := a.reached[at]

	if o.began.IsZero() && (after == nil || va.DeletionTimestamp != nil) {
		o.began = time.Now()
	}

	was, known := before.(*storagev1.VolumeAttachment)
	already := known && was.Status.Attached
	if byPods && va.Status.Attached && !already && !reaches {
		a.w.violate("VolumeAttachment %s says attached, and the storage does not let %s reach %s", va.Name, at.node, at.key)
	}

	if after != nil {
		return
	}

	o.gone = time.Now()
	has.excused = has.excused || o.forced
	if reaches {
		a.reached[at] = has
	}
	if reaches && !has.excused {
		a.w.violate("VolumeAttachment %s is gone, and node %s reaches %s by %s", va.Name, at.node, at.key, has.pod)
	}
	a.syncSoon(va.Name)
}

func (a *attachments) syncSoon(name string) {
	a.w.later(10*time.Millisecond, 3*time.Second, a.sync, "attach-detach", name)
}

// sync is the attach-detach controller. A volume gets a VolumeAttachment only once there is no other of it.
func (a *attachments) sync() {
	a.syncing.Lock()
	defer a.syncing.Unlock()

	a.mu.Lock()
	wanted := map[string]workload{}
	for _, user := range a.workloads {
		wanted[user.volume] = user
	}
	a.mu.Unlock()

	for _, va := range apiserver.List[*storagev1.VolumeAttachment](a.w.server, apiserver.Attachments) {
		volume := *va.Spec.Source.PersistentVolumeName
		if wanted[volume].node != va.Spec.NodeName && va.DeletionTimestamp == nil {
			a.w.remove("attach-detach", apiserver.Attachments, "", va.Name)
		}
		if _, left := a.object(va.Name); left {
			delete(wanted, volume)
		}
	}

	for _, name := range sorted(wanted) {
		user := wanted[name]
		v, ok := a.w.volume(name)
		if !ok || !staged(v) {
			continue
		}
		a.mu.Lock()
		a.volumes[name] = v
		a.mu.Unlock()
		a.w.create(apiserver.Attachments, &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "csi-" + user.node + "-" + name},
			Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: user.node,
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}})
	}
}

func (a *attachments) object(name string) (*storagev1.VolumeAttachment, bool) {
	return apiserver.Get[*storagev1.VolumeAttachment](a.w.server, apiserver.Attachments, "", name)
}

// uses reports whether a workload has the claim. A finalizer of Kubernetes keeps that claim.
func (a *attachments) uses(claim string) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, used := a.workloads[claim]
	return used
}

// start runs a workload on one of the ready nodes, if the claim can be used and has none.
func (a *attachments) start(name string, nth int) (started bool) {
	claim, ok := a.w.claim(name)
	if !ok || claim.Status.Phase != corev1.ClaimBound || claim.DeletionTimestamp != nil || a.uses(name) {
		return false
	}
	v, ok := a.w.volume(claim.Spec.VolumeName)
	ready := a.w.readyNodes()
	if !ok || !staged(v) || len(ready) == 0 {
		return false
	}

	node := ready[nth%len(ready)].name
	a.w.trace.add("user", "runs a workload with %s (%s) on %s", name, v.Name, node)
	a.mu.Lock()
	a.workloads[name] = workload{claim.UID, v.Name, node}
	a.mu.Unlock()
	a.syncSoon(name)
	return true
}

func (a *attachments) stop(claim string) {
	if !a.uses(claim) {
		return
	}
	a.w.trace.add("user", "ends the workload with %s", claim)
	a.mu.Lock()
	delete(a.workloads, claim)
	a.mu.Unlock()
	a.syncSoon(claim)
}

// running are the claims of the workloads on a node, or on all.
func (a *attachments) running(node string) (claims []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, claim := range sorted(a.workloads) {
		if node == "" || a.workloads[claim].node == node {
			claims = append(claims, claim)
		}
	}
	return claims
}

// evict lets workloads of a lost node run elsewhere, where there is another one. Kubernetes detaches by force.
func (a *attachments) evict(n *node) {
	if a == nil {
		return
	}
	for i, claim := range a.running(n.name) {
		a.stop(claim)
		a.start(claim, i)
	}
}

// act carries out an action of the plan.
func (a *attachments) act(do Action, mend func(func())) {
	if a == nil {
		return
	}
	claims, running := a.w.plan.Claims, a.running("")
	switch do.Do {
	case "attach-start":
		for i := range claims {
			if a.start(claimName((do.N+i)%claims), do.N/8) {
				return
			}
		}
	case "attach-stop", "attach-move":
		if len(running) == 0 {
			return
		}
		claim := running[do.N%len(running)]
		a.stop(claim)
		if do.Do == "attach-move" {
			a.start(claim, do.N/8)
		}
	case "attach-force":
		for _, va := range apiserver.List[*storagev1.VolumeAttachment](a.w.server, apiserver.Attachments) {
			if va.DeletionTimestamp != nil {
				a.force(va)
				return
			}
		}
	case "connector-away":
		n := a.w.nodes[do.N%len(a.w.nodes)]
		a.w.trace.add("admin", "flex-node is not on %s", n.name)
		a.setDrivers(n, nil)
		mend(func() { a.register(n) })
	}
}

// register is flex-node on a node that exists.
func (a *attachments) register(n *node) {
	if a == nil || n.isRemoved() {
		return
	}
	drivers := []storagev1.CSINodeDriver{{Name: driver, NodeID: connectorOf(n.name)}}
	if !a.setDrivers(n, drivers) {
		a.w.create(apiserver.CSINodes, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.name},
			Spec: storagev1.CSINodeSpec{Drivers: drivers}})
	}
}

func (a *attachments) setDrivers(n *node, drivers []storagev1.CSINodeDriver) (exists bool) {
	return a.w.server.Mutate(apiserver.CSINodes, "", n.name, func(o apiserver.Object) {
		o.(*storagev1.CSINode).Spec.Drivers = drivers
	})
}

// force is an administrator who detaches on the storage system, and then takes the finalizer off.
func (a *attachments) force(va *storagev1.VolumeAttachment) {
	a.w.trace.add("admin", "forces %s away", va.Name)
	a.mu.Lock()
	at, _ := a.spotOf(va)
	a.order(va.UID).forced = true
	delete(a.reached, at)
	a.mu.Unlock()
	a.w.server.Mutate(apiserver.Attachments, "", va.Name, func(o apiserver.Object) {
		if o.GetUID() == va.UID {
			o.SetFinalizers(nil)
		}
	})
}

// finish is for users and administrators once everything is mended: workloads without their volume end, and what the
// status of a VolumeAttachment asks administrators for is done.
func (a *attachments) finish() {
	if a == nil {
		return
	}
	for i := range a.w.plan.Claims {
		a.mu.Lock()
		user, used := a.workloads[claimName(i)]
		a.mu.Unlock()
		claim, ok := a.w.claim(claimName(i))
		lost := !ok || claim.UID != user.claim || claim.DeletionTimestamp != nil || claim.Status.Phase != corev1.ClaimBound
		if used && lost {
			a.stop(claimName(i))
		}
	}
	for _, va := range apiserver.List[*storagev1.VolumeAttachment](a.w.server, apiserver.Attachments) {
		if fault := va.Status.DetachError; fault != nil && strings.Contains(fault.Message, waitsForHand) {
			a.force(va)
		}
	}
}

// unsettled is what is not as it must be at the end.
func (a *attachments) unsettled() (list []string) {
	if a == nil {
		return nil
	}
	vas := apiserver.List[*storagev1.VolumeAttachment](a.w.server, apiserver.Attachments)
	going := map[string]bool{} // nobody attaches a volume that is being deleted
	for _, v := range apiserver.List[*corev1.PersistentVolume](a.w.server, apiserver.Volumes) {
		going[v.Name] = v.DeletionTimestamp != nil
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	of, users := map[spot]bool{}, map[string]bool{}
	for _, va := range vas {
		at, byPods := a.spotOf(va)
		_, reaches := a.reached[at]
		volume := *va.Spec.Source.PersistentVolumeName
		of[at], users[va.Name] = true, true
		told := va.DeletionTimestamp == nil && va.Status.AttachError != nil && going[volume]
		waits := va.DeletionTimestamp != nil || !va.Status.Attached
		if waits && !told || byPods && va.Status.Attached && !reaches {
			list = append(list, fmt.Sprintf("VolumeAttachment %s (%s, deleted %v, finalizers %v) waits, reached %v: %+v",
				va.Name, va.UID, va.DeletionTimestamp != nil, va.Finalizers, reaches, va.Status))
		}
	}
	for _, claim := range sorted(a.workloads) {
		if user := a.workloads[claim]; !users["csi-"+user.node+"-"+user.volume] {
			list = append(list, fmt.Sprintf("the workload with %s on %s has no VolumeAttachment", claim, user.node))
		}
	}
	for at, has := range a.reached {
		if !of[at] {
			list = append(list, fmt.Sprintf("node %s still reaches %s, by %s", at.node, at.key, has.pod))
		}
	}
	slices.Sort(list)
	return list
}

// mayRemove checks that no node reaches storage that is removed.
func (a *attachments) mayRemove(c *container, key string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for at, has := range a.reached {
		if at.key == key && !has.excused {
			a.w.violate("pod %s removes the storage at %s, which node %s reaches by %s", c.pod.Name, key, at.node, has.pod)
		}
	}
}

// spot is where the container attaches, or detaches. Each pod says of the node what flex-node says.
func (c *container) spot() spot {
	of := c.request.Attachment
	if of.Connector != connectorOf(of.Node) {
		c.w.violate("pod %s has the connector %q for node %s", c.pod.Name, of.Connector, of.Node)
	}
	return spot{c.key(), of.Node}
}

// attach is the operation of the image.
func (c *container) attach() error {
	a, b, at := c.w.attachments, c.w.backend, c.spot()
	a.mayAttach(c)
	if err := c.begin(c.refuses); err != nil {
		return err
	}
	if err := b.call(c, "look the volume up"); err != nil {
		return err
	}
	if state := b.get(at.key); state != available {
		return fmt.Errorf("the volume at %s is %q", at.key, state)
	}
	if !a.reaches(at) {
		if err := b.call(c, "let the node reach the volume"); err != nil {
			c.lateToo(err, func() { a.let(c, at) })
			return err
		}
		a.let(c, at)
	}
	if c.chance("exit-1") {
		return errors.New("something went wrong after the volume was attached")
	}
	if err := c.step(time.Millisecond, time.Second, "publish"); err != nil {
		return err
	}
	return c.publish(map[string]string{"paths": "to " + at.key})
}

// detach is the operation of the image.
func (c *container) detach() error {
	a, b, at := c.w.attachments, c.w.backend, c.spot()
	if err := c.begin(c.refuses); err != nil {
		return err
	}
	if err := b.call(c, "look the node up"); err != nil {
		return err
	}
	if a.reaches(at) {
		if err := b.call(c, "take the volume away from the node"); err != nil {
			c.lateToo(err, func() { a.take(c, at) })
			return err
		}
		a.take(c, at)
	}
	if c.chance("exit-1") {
		return errors.New("something went wrong after the volume was detached")
	}
	return nil
}

func (a *attachments) reaches(at spot) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, reaches := a.reached[at]
	return reaches
}

// mayAttach checks that somebody asks for it.
func (a *attachments) mayAttach(c *container) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.order(types.UID(c.request.Attachment.UID))
	if !o.began.IsZero() && c.run.state.created.Sub(o.began) > decided {
		a.w.violate("pod %s attaches, and the deletion of %s began %s before it was created", c.pod.Name,
			c.request.Attachment.Name, c.run.state.created.Sub(o.began))
	}
}

// let lets the node reach the volume. Nobody may ask for that beside another node, or for a VolumeAttachment that went
// after the pod was created.
func (a *attachments) let(c *container, at spot) {
	if a.w.backend.get(at.key) != available {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.order(types.UID(c.request.Attachment.UID))
	excused := o.forced || !o.began.IsZero() && c.run.state.created.After(o.began)
	if !o.gone.IsZero() && !excused {
		a.w.violate("pod %s lets node %s reach %s, and its VolumeAttachment has been gone for %s", c.pod.Name, at.node,
			at.key, time.Since(o.gone))
	}
	for other, has := range a.reached {
		if other.key == at.key && other.node != at.node && !has.excused && !excused {
			a.w.violate("pod %s lets node %s reach %s, which node %s reaches by %s", c.pod.Name, at.node, at.key,
				other.node, has.pod)
		}
	}

	has, reaches := a.reached[at]
	a.reached[at] = grant{c.pod.Name, excused && (!reaches || has.excused)}
	a.w.trace.add("backend", "lets %s reach %s: %+v", at.node, at.key, a.reached[at])
	a.w.count("volume-attached")
}

// take takes the volume away from the node. Nobody may ask for that while a VolumeAttachment says that the node reaches
// it, but for pods of one that went before, which may not have known of that one.
func (a *attachments) take(c *container, at spot) {
	va, there := a.object("csi-" + at.node + "-" + c.request.VolumeName)
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.order(types.UID(c.request.Attachment.UID))
	if there && va.Status.Attached && va.DeletionTimestamp == nil {
		late := !o.gone.IsZero() && (o.forced || c.run.state.created.After(o.gone))
		if !late || c.run.state.created.Sub(va.CreationTimestamp.Time) > decided {
			a.w.violate("pod %s takes %s away from %s, which VolumeAttachment %s (%s) says is attached", c.pod.Name, at.key,
				at.node, va.Name, va.UID)
		}
	}

	delete(a.reached, at)
	a.w.trace.add("backend", "takes %s away from %s, by %s", at.key, at.node, c.pod.Name)
	a.w.count("volume-detached")
}

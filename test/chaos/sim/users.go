package sim

import (
	"slices"
	"strconv"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

var gigabyte = resource.MustParse("1Gi")

// putClass creates the StorageClass unless it is there.
func (w *World) putClass(i int, pool, provisioner string) {
	c := w.plan.Classes[i]
	policy, mode := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
	if c.Retain {
		policy = corev1.PersistentVolumeReclaimRetain
	}
	if c.Delayed {
		mode = storagev1.VolumeBindingWaitForFirstConsumer
	}
	w.create(apiserver.Classes, &storagev1.StorageClass{
		ObjectMeta:    metav1.ObjectMeta{Name: c.Name},
		Provisioner:   provisioner,
		ReclaimPolicy: &policy, VolumeBindingMode: &mode,
		Parameters: c.parameters(pool), AllowVolumeExpansion: &w.plan.Sizes,
	})
}

// parameters of the class; pool is "a" or "b".
func (c Class) parameters(pool string) map[string]string {
	if c.Cinder {
		return map[string]string{"fsType": map[string]string{"a": "ext4", "b": "xfs"}[pool]}
	}
	return map[string]string{"pool": pool}
}

// zoneProperty is a property in which two configs may differ.
func (c Class) zoneProperty() string {
	if c.Cinder {
		return "cluster"
	}
	return "zone"
}

// putConfig creates or replaces the class's ConfigMap. note is a property that means nothing.
func (w *World) putConfig(i int, zone, note string) {
	c := w.plan.Classes[i]
	data := map[string]string{
		"plugin-name": contract.ProvisionerName, "image": "example.com/image", "service-account-name": "provisioner",
		c.zoneProperty(): zone, "timeout": "60s", "start-timeout": "40s", "failed-pod-ttl": "0s",
	}
	switch {
	case c.Cinder:
		data["secrets"] = credentials
	case w.plan.Sizes:
		data["expandable"] = "true"
	}
	if w.plan.Snapshots && !c.Cinder {
		data["snapshots"] = "true"
	}
	if c.Stager == stagerISCSI {
		data["attachments"] = "true"
	}
	if c.NodeLocal {
		data["node-local"] = "true"
	}
	if c.Mounts {
		data["mount-claims"] = w.mounts + mountPath
	}
	if c.GiveUp > 0 {
		data["give-up-after"] = c.GiveUp.String()
	}
	if c.DeleteLimit > 0 {
		data["delete-limit"] = strconv.Itoa(c.DeleteLimit)
	}
	if c.TTL > 0 {
		data["failed-pod-ttl"] = c.TTL.String()
	}
	if c.MaxConcurrent > 0 {
		data["max-concurrent"] = string(rune('0' + c.MaxConcurrent))
	}
	if note != "" {
		data["image"] = "example.com/image:" + note
	}
	w.setConfig(i, data)
}

func (w *World) setConfig(i int, data map[string]string) {
	name := w.plan.Classes[i].Name
	if w.server.Mutate(apiserver.ConfigMaps, namespace, name, func(o apiserver.Object) { o.(*corev1.ConfigMap).Data = data }) {
		w.trace.add("admin", "change ConfigMap %s: %v", name, data)
		return
	}
	w.create(apiserver.ConfigMaps, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"storage-class": name, "type": "provisioner-config"}},
		Data:       data})
}

func (w *World) createClaim(i int) { w.createClaimFor(i, "") }

// createClaimFor makes a claim that may ask for a volume by name.
func (w *World) createClaimFor(i int, volume string) {
	class := w.plan.Classes[i%len(w.plan.Classes)].Name
	mode := corev1.PersistentVolumeFilesystem
	var attributes *string
	if w.dice.chance(w.plan.Rates["claim-attributes"], "claim-attributes", claimName(i)) {
		w.drawn("claim-attributes")
		attributes = new("gold")
	}
	var from *corev1.TypedLocalObjectReference
	w.set(func() {
		if name := w.restores[i]; name != "" {
			from = &corev1.TypedLocalObjectReference{APIGroup: new(snapshotv1.GroupName), Kind: "VolumeSnapshot", Name: name}
		}
	})
	w.create(apiserver.Claims, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.plan.Tenant(i), Name: claimName(i)},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, VolumeMode: &mode, VolumeAttributesClassName: attributes, VolumeName: volume, DataSource: from,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: gigabyte}},
		},
	})
}

// do carries out one action of the plan.
func (w *World) do(a Action) {
	if w.cinder == nil && (strings.HasPrefix(a.Do, "cinder-") || strings.HasPrefix(a.Do, "secret-")) {
		return
	}
	w.trace.add("plan", "%s %d for %s", a.Do, a.N, a.For)
	w.drawn(a.Do)
	w.turns.disturbed(a.Do, a.For)
	mend := func(f func()) {
		time.AfterFunc(a.For, func() {
			if !w.over.Load() {
				f()
			}
		})
	}
	claim, class := a.N%w.plan.Claims, a.N%len(w.plan.Classes)
	switch a.Do {
	case "claim-create":
		w.createClaim(claim)
	case "claim-delete":
		w.remove("user", apiserver.Claims, w.tenantOf(claimName(claim)), claimName(claim))
	case "claim-recreate":
		w.remove("user", apiserver.Claims, w.tenantOf(claimName(claim)), claimName(claim))
		w.recreate(claim, 10)
	case "claim-annotate":
		w.server.Mutate(apiserver.Claims, w.tenantOf(claimName(claim)), claimName(claim), func(o apiserver.Object) { setAnnotation(o, "team/note", a.At.String()) })
	case "claim-expand", "claim-shrink":
		w.resize(claimName(claim), a)
	case "config-edit":
		w.putConfig(class, "zone-a", "note"+string(rune('a'+a.N%20)))
	case "config-identity":
		w.putConfig(class, []string{"zone-b", "zone-a", "zone-c"}[a.N%3], "")
	case "config-break":
		w.setConfig(class, map[string]string{"plugin-name": contract.ProvisionerName, "nodeselector": "x"})
		mend(func() { w.putConfig(class, "zone-a", "mended") })
	case "config-delete":
		w.remove("admin", apiserver.ConfigMaps, namespace, w.plan.Classes[class].Name)
		mend(func() { w.putConfig(class, "zone-a", "") })
	case "class-delete", "class-parameters", "class-foreign":
		pool := map[string]string{"class-delete": "a", "class-foreign": "a", "class-parameters": "b"}[a.Do]
		w.remove("admin", apiserver.Classes, "", w.plan.Classes[class].Name)
		if a.Do == "class-foreign" {
			w.putClass(class, "a", foreign)
		}
		mend(func() {
			w.takeClassBack(class)
			w.putClass(class, pool, contract.ProvisionerName)
		})
	case "class-elsewhere":
		w.pointElsewhere(class, a.N/2, mend)
	case "volume-retain", "volume-unretain", "volume-delete", "volume-restore":
		w.touchVolume(a)
	case "volumes-age":
		w.age()
	case "admission-refuses":
		w.refuse(a, mend)
	case "deletes-stop":
		w.stopDeletes(a.For)
	case "quota-zero":
		w.set(func() { w.noQuota = true })
		mend(func() { w.set(func() { w.noQuota = false }) })
	case "image-broken":
		w.set(func() { w.images[w.plan.Classes[class].Name] = true })
		mend(func() { w.set(func() { delete(w.images, w.plan.Classes[class].Name) }) })
	case "attach-start", "attach-stop", "attach-move", "attach-force", "connector-away":
		w.attachments.act(a, mend)
	case "watch-lag", "watch-lag-pods", "watch-lag-claims", "watch-lag-volumes", "watch-lag-attachments", "watch-cut", "compact":
		w.disturb(a)
	case "cinder-quota-zero", "secret-rotate", "secret-delete":
		w.cinder.do(a, mend)
	case "dispatcher-away":
		w.sendAway(a.For)
	case "dispatcher-old-lists":
		w.replaceByOld(a)
	case "dispatcher-kill", "dispatcher-second", "dispatcher-stale":
		w.disturbDispatchers(a)
	case "pod-kill", "pod-evict", "pod-delete":
		w.disturbPod(a)
	case "node-dead", "node-cut", "node-deleted", "node-lost", "node-gone":
		w.disturbNode(a)
	case "node-drain":
		w.drain(a)
	default:
		if strings.HasPrefix(a.Do, "snapshot-") {
			w.snap(a)
			return
		}
		if !strings.HasPrefix(a.Do, "admin-") {
			panic("unknown action " + a.Do)
		}
		w.administer(a)
	}
}

func (w *World) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// recreate makes a claim of the same name as soon as the old one is gone.
func (w *World) recreate(i, tries int) {
	w.later(time.Millisecond, time.Second, func() {
		if _, there := apiserver.Get[*corev1.PersistentVolumeClaim](w.server, apiserver.Claims, w.tenantOf(claimName(i)), claimName(i)); there {
			if tries > 0 {
				w.recreate(i, tries-1)
			}
			return
		}
		w.createClaim(i)
	}, "user", "recreate", claimName(i))
}

func (w *World) touchVolume(a Action) {
	volumes := apiserver.List[*corev1.PersistentVolume](w.server, apiserver.Volumes)
	if len(volumes) == 0 {
		return
	}
	v := volumes[a.N%len(volumes)]
	if isForeign(v) {
		return
	}
	if a.Do == "volume-restore" {
		w.restore(v, false)
		return
	}
	if a.Do == "volume-delete" {
		if back := w.givenBack[v.Name]; !back.IsZero() && (!slices.Contains(v.Finalizers, contract.VolumeFinalizer) || time.Since(back) < decided) {
			// Nobody had put it back yet, or the library takes it off yet by what it knew before, so the storage stays behind: crash point 20.
			w.set(func() { w.kept[v.Name] = true })
		}
		w.remove("admin", apiserver.Volumes, "", v.Name)
		return
	}
	if a.Do == "volume-unretain" {
		if v.DeletionTimestamp != nil {
			return // too late: nobody can put the finalizer back that a retained volume does not have (crash point 20)
		}
		w.set(func() {
			w.givenBack[v.Name] = time.Now()
			known := v.Annotations[contract.AnnIdentity] != "" // else nothing says where the storage is: see forge
			if known {
				delete(w.kept, v.Name)
			}
		})
		w.setPolicy(v.Name, corev1.PersistentVolumeReclaimDelete)
		return
	}
	w.set(func() { w.kept[v.Name] = true }) // its deletion may have begun: judged when the pod is ordered
	w.setPolicy(v.Name, corev1.PersistentVolumeReclaimRetain)
}

func (w *World) setPolicy(volume string, policy corev1.PersistentVolumeReclaimPolicy) {
	w.trace.add("admin", "sets the policy of %s to %s", volume, policy)
	w.server.Mutate(apiserver.Volumes, "", volume, func(o apiserver.Object) {
		o.(*corev1.PersistentVolume).Spec.PersistentVolumeReclaimPolicy = policy
	})
}

func (w *World) disturb(a Action) {
	resources := map[string][]string{
		"watch-lag":             {apiserver.Pods, apiserver.Claims, apiserver.Volumes, apiserver.ConfigMaps, apiserver.Classes, apiserver.Revisions, apiserver.Snapshots, apiserver.SnapshotContents, apiserver.Attachments},
		"watch-lag-attachments": {apiserver.Attachments},
		"watch-lag-pods":        {apiserver.Pods, apiserver.Revisions}, "watch-lag-claims": {apiserver.Claims}, "watch-lag-volumes": {apiserver.Volumes}}[a.Do]
	for _, resource := range resources {
		w.set(func() { w.lags[resource] = time.Now().Add(a.For) })
	}
	if a.Do == "compact" {
		w.server.Compact()
	}
	if a.Do == "compact" || a.Do == "watch-cut" {
		for _, d := range w.alive() {
			d.cutWatches()
		}
	}
}

func setAnnotation(o apiserver.Object, name, value string) {
	annotations := map[string]string{}
	for k, v := range o.GetAnnotations() {
		annotations[k] = v
	}
	annotations[name] = value
	if value == "" {
		delete(annotations, name)
	}
	o.SetAnnotations(annotations)
}

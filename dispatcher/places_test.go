package dispatcher

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// export binds a claim of the pods' namespace to a directory of an NFS server. It replaces an earlier claim of the name.
func (p tenants) export(claim, directory string) {
	p.unexport(claim)
	none := ""
	p.create(apiserver.Claims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: claim}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &none}})
	if directory == "" {
		return
	}

	c, _ := apiserver.Get[*corev1.PersistentVolumeClaim](p.server, apiserver.Claims, "ns", claim)
	p.create(apiserver.Volumes, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim + strings.ReplaceAll(directory, "/", "-")},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nas", Path: directory}},
			ClaimRef:               &corev1.ObjectReference{Namespace: "ns", Name: claim, UID: c.UID}}})
	p.play(time.Second)
}

func (p tenants) unexport(claim string) {
	for _, v := range apiserver.List[*corev1.PersistentVolume](p.server, apiserver.Volumes) {
		if v.Spec.ClaimRef.Namespace == "ns" && v.Spec.ClaimRef.Name == claim {
			p.remove(apiserver.Volumes, "", v.Name)
		}
	}

	if _, there := apiserver.Get[*corev1.PersistentVolumeClaim](p.server, apiserver.Claims, "ns", claim); there {
		p.remove(apiserver.Claims, "ns", claim)
	}

	p.play(time.Second)
}

// mounted are the claims and directories that pods of an operation had, by the pods' names without the UID.
func (p tenants) mounted(prefix string) (list []string) {
	for name, pod := range p.ran {
		if !strings.HasPrefix(name, prefix+"-") {
			continue
		}

		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				list = append(list, v.PersistentVolumeClaim.ClaimName)
			}

			if v.HostPath != nil {
				list = append(list, v.HostPath.Path)
			}
		}
	}

	slices.Sort(list)

	return list
}

func (p tenants) wantMounted(prefix string, want ...string) {
	p.t.Helper()
	if got := p.mounted(prefix); !slices.Equal(got, want) {
		p.t.Errorf("%s pods have mounted %q, want %q", prefix, got, want)
	}
}

// volumeOf is the volume of the claim team/data.
func (p tenants) volumeOf() *corev1.PersistentVolume {
	for _, v := range apiserver.List[*corev1.PersistentVolume](p.server, apiserver.Volumes) {
		if v.Spec.ClaimRef.Namespace == "team" && v.Spec.ClaimRef.Name == "data" {
			return v
		}
	}

	return nil
}

var mounting = map[string]string{"mount-claims": "one:/export", "host-path": "/srv/one", "expand": "true"}

// TestClassPointedElsewhere: a volume is expanded and deleted where it was made, whatever its class mounts by then.
func TestClassPointedElsewhere(t *testing.T) {
	inBubble(t, func(p tenants) {
		defer p.dispatch()()

		p.export("one", "/srv/e1")
		p.export("two", "/srv/e2")
		p.class("silver", mounting)
		p.claim("data", "silver")
		p.play(10 * time.Second)
		p.wantMounted("prov", "/srv/one", "one")
		p.edit("silver", map[string]string{"mount-claims": "two:/export", "host-path": "/srv/two"})
		p.ask("data", "2Gi")
		p.play(10 * time.Second)
		p.wantMounted("exp", "/srv/one", "one")
		p.remove(apiserver.Claims, "team", "data")
		p.play(10 * time.Second)
		p.wantMounted("del", "/srv/one", "one")
		if v := p.volumeOf(); v != nil {
			t.Errorf("the volume is %s", v.Status.Phase)
		}

		p.claim("later", "silver")
		p.play(10 * time.Second)
		p.wantMounted("prov", "/srv/one", "/srv/two", "one", "two")
	})
}

// TestStorageReplaced: no pod looks for a volume in storage that has taken the place of that on which it was made. An administrator who brings
// it back, or says that the volume is in the new one, is obeyed at once.
func TestStorageReplaced(t *testing.T) {
	const was = "was made with claim one (nfs://nas/srv/e1) at /export, and "
	for name, c := range map[string]struct {
		replace func(p tenants)
		now     string
		remedy  func(p tenants, v *corev1.PersistentVolume)
	}{
		"other storage, and the first comes back": {func(p tenants) { p.export("one", "/srv/e2") }, "that claim is nfs://nas/srv/e2 now",
			func(p tenants, _ *corev1.PersistentVolume) { p.export("one", "/srv/e1") }},
		"other storage, which has the volume": {func(p tenants) { p.export("one", "/srv/e2") }, "that claim is nfs://nas/srv/e2 now",
			func(p tenants, v *corev1.PersistentVolume) {
				p.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) {
					delete(o.GetAnnotations(), "flex-provisioner.io/mounts")
					o.GetAnnotations()["flex-provisioner.io/record"] = "trusted"
				})
			}},
		"no claim": {func(p tenants) { p.unexport("one") }, "claim ns/one does not exist",
			func(p tenants, _ *corev1.PersistentVolume) { p.export("one", "/srv/e1") }},
		"no storage": {func(p tenants) { p.export("one", "") }, "claim ns/one is not bound",
			func(p tenants, _ *corev1.PersistentVolume) { p.export("one", "/srv/e1") }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(p tenants) {
				defer p.dispatch()()

				p.export("one", "/srv/e1")
				p.class("silver", mounting)
				p.claim("data", "silver")
				p.play(10 * time.Second)
				c.replace(p)
				p.ask("data", "2Gi")
				p.play(5 * time.Second)
				p.wantMounted("exp")
				p.remove(apiserver.Claims, "team", "data")
				p.play(5 * time.Second)
				p.wantMounted("del")
				v := p.volumeOf()
				if v == nil {
					p.t.Fatal("the volume is gone")
				}

				told := was + c.now + ": bring back the claim with that storage; or if its storage is what class silver mounts now: kubectl annotate pv " + v.Name +
					" --overwrite flex-provisioner.io/record=trusted flex-provisioner.io/mounts-"
				want := []string{"data: the volume waits to be expanded: volume " + v.Name + " " + told, v.Name + ": storage waits to be removed: volume " + v.Name + " " + told}
				if got := p.said("StorageMoved"); !slices.Equal(got, want) {
					t.Errorf("events say\n%q\nwant\n%q", got, want)
				}

				c.remedy(p, v)
				p.play(5 * time.Second)
				p.wantMounted("del", "/srv/one", "one")
				if v := p.volumeOf(); v != nil {
					t.Errorf("the volume is %s", v.Status.Phase)
				}
			})
		})
	}
}

// TestVolumesOfBefore: a volume whose record says nothing of its place is expanded and deleted by what its class mounts.
func TestVolumesOfBefore(t *testing.T) {
	inBubble(t, func(p tenants) {
		defer p.dispatch()()

		p.export("one", "/srv/e1")
		p.class("silver", mounting)
		p.claim("data", "silver")
		p.play(10 * time.Second)
		p.server.Mutate(apiserver.Volumes, "", p.volumeOf().Name, func(o apiserver.Object) {
			v := o.(*corev1.PersistentVolume)
			delete(v.Annotations, "flex-provisioner.io/mounts")
			v.Annotations["flex-provisioner.io/record"] = podspec.RecordKey(dispatchertest.Key).Sign(v)
		})
		p.edit("silver", map[string]string{"zone": "east"}) // the record is signed: the new property is not the volume's
		p.ask("data", "2Gi")
		p.play(10 * time.Second)
		p.wantMounted("exp", "/srv/one", "one")
		p.remove(apiserver.Claims, "team", "data")
		p.play(10 * time.Second)
		p.wantMounted("del", "/srv/one", "one")
		if v, said := p.volumeOf(), p.said("VolumeRecordInvalid"); v != nil || len(said) > 0 {
			t.Errorf("the volume is %v; %q", v, said)
		}
	})
}

// TestMountNotBound: a claim waits for the storage that its class mounts, and says so, since its record has to say where it is.
func TestMountNotBound(t *testing.T) {
	inBubble(t, func(p tenants) {
		defer p.dispatch()()

		p.class("silver", mounting)
		p.claim("data", "silver")
		p.play(5 * time.Second)
		p.export("one", "")
		p.play(5 * time.Second)
		p.wantMounted("prov")
		want := []string{
			"data: claim ns/one does not exist, and ConfigMap silver mounts it at /export; bind it, or correct the ConfigMap",
			"data: claim ns/one is not bound, and ConfigMap silver mounts it at /export; bind it, or correct the ConfigMap",
		}
		if got := p.said("MountNotBound"); !slices.Equal(got, want) {
			t.Errorf("events say %q, want %q", got, want)
		}

		p.export("one", "/srv/e1")
		p.play(5 * time.Second)
		p.wantMounted("prov", "/srv/one", "one")
		if v := p.volumeOf(); v == nil || v.Status.Phase != corev1.VolumeBound {
			t.Errorf("the volume is %v", v)
		}
	})
}

// TestMountWaitsForFirstPod: a claim that is bound once a pod uses it keeps no pod away. The record has the claim, and no source.
func TestMountWaitsForFirstPod(t *testing.T) {
	inBubble(t, func(p tenants) {
		defer p.dispatch()()

		wait, name := storagev1.VolumeBindingWaitForFirstConsumer, "local"
		p.create(apiserver.Classes, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &wait})
		p.create(apiserver.Claims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one"}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &name},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}})
		p.class("silver", map[string]string{"mount-claims": "one:/export"})
		p.claim("data", "silver")
		p.play(10 * time.Second)
		p.wantMounted("prov", "one")
		v := p.volumeOf()
		if v == nil {
			p.t.Fatal("there is no volume")
		}

		if got, want := v.Annotations["flex-provisioner.io/mounts"], `[{"claim":"one","path":"/export"}]`; got != want {
			t.Errorf("mounts %s, want %s", got, want)
		}
	})
}

// TestAttemptElsewhere: what an attempt may have made is undone where it was made, before the next attempt is made elsewhere.
func TestAttemptElsewhere(t *testing.T) {
	inBubble(t, func(p tenants) {
		defer p.dispatch()()

		p.export("one", "/srv/e1")
		p.export("two", "/srv/e2")
		p.class("silver.fails", map[string]string{"mount-claims": "one:/export"})
		p.claim("data", "silver.fails")
		p.play(5 * time.Second)
		p.export("one", "/srv/e3")
		before := len(p.mounted("prov"))
		p.play(5 * time.Second)
		p.wantMounted("del")
		if got := len(p.mounted("prov")); got != before {
			t.Errorf("%d more attempts", got-before)
		}

		said := p.said("StorageMoved")
		if len(said) != 1 || !strings.Contains(said[0], "what an earlier attempt may have made was made with claim one (nfs://nas/srv/e1) at /export, and that claim is nfs://nas/srv/e3 now") ||
			!strings.Contains(said[0], "or if nothing of it is left: kubectl -n ns annotate pod prov-") {
			t.Errorf("events say %q", said)
		}

		p.export("one", "/srv/e1")
		p.edit("silver.fails", map[string]string{"mount-claims": "two:/export"})
		p.play(10 * time.Second)
		p.wantMounted("del", "one")
		if got := p.mounted("prov"); !slices.Contains(got, "two") {
			t.Errorf("later attempts have %q", got)
		}
	})
}

// TestAbandonedAttempt: an administrator who says that nothing of an attempt is left is obeyed.
func TestAbandonedAttempt(t *testing.T) {
	inBubble(t, func(p tenants) {
		defer p.dispatch()()

		p.export("one", "/srv/e1")
		p.class("silver.fails", map[string]string{"mount-claims": "one:/export"})
		p.claim("data", "silver.fails")
		p.play(5 * time.Second)
		p.unexport("one")
		p.remove(apiserver.Claims, "team", "data")
		p.play(time.Minute)
		p.wantMounted("del")
		for range 5 {
			for _, said := range p.said("StorageMoved") {
				_, pod, _ := strings.Cut(said, "kubectl -n ns annotate pod ")
				pod, _, _ = strings.Cut(pod, " ")
				p.server.Mutate(apiserver.Pods, "ns", pod, func(o apiserver.Object) { o.GetAnnotations()["flex-provisioner.io/settled"] = "true" })
			}

			p.play(10 * time.Second)
		}

		p.play(2 * time.Minute)
		if pods := apiserver.List[*corev1.Pod](p.server, apiserver.Pods); len(pods) > 0 {
			t.Errorf("there are %s", fmt.Sprint(len(pods), pods[0].Name))
		}
	})
}

// TestLocation: what a provisioner says of the place of its volume reaches the pod that deletes it, if it is a location at all.
func TestLocation(t *testing.T) {
	for written, want := range map[string]string{"3f1c": "3f1c", "two words": "", "": ""} {
		inBubble(t, func(p tenants) {
			defer p.dispatch()()

			p.class("silver", nil)
			p.claim("data", "silver")
			p.play(10 * time.Second)
			p.server.Mutate(apiserver.Volumes, "", p.volumeOf().Name, func(o apiserver.Object) { o.GetAnnotations()["flex-provisioner.io/location"] = written })
			p.remove(apiserver.Claims, "team", "data")
			p.play(10 * time.Second)
			for name, pod := range p.ran {
				request, err := podspec.RequestOf(pod)
				if err != nil {
					p.t.Fatal(err)
				}

				if strings.HasPrefix(name, "del-") && request.Location != want {
					t.Errorf("of a volume with %q the delete gets %q, want %q", written, request.Location, want)
				}
			}

			if p.volumeOf() != nil {
				t.Errorf("with %q the volume is still there", written)
			}
		})
	}
}

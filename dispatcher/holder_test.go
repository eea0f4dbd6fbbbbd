package dispatcher

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// A claim is made, bound and old, when somebody else comes to have its volume in one of the ways in which that happens.

func (p tenants) claimNamed(name string) *corev1.PersistentVolumeClaim {
	claim, ok := apiserver.Get[*corev1.PersistentVolumeClaim](p.server, apiserver.Claims, "team", name)
	if !ok {
		p.t.Fatalf("there is no claim %s", name)
	}

	return claim
}

func (p tenants) volumeNamed(name string) *corev1.PersistentVolume {
	volume, _ := apiserver.Get[*corev1.PersistentVolume](p.server, apiserver.Volumes, "", name)
	return volume
}

func (p tenants) changeVolume(name string, change func(v *corev1.PersistentVolume)) {
	p.server.Mutate(apiserver.Volumes, "", name, func(o apiserver.Object) { change(o.(*corev1.PersistentVolume)) })
}

func (p tenants) setPolicy(volume string, policy corev1.PersistentVolumeReclaimPolicy) {
	p.changeVolume(volume, func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = policy })
}

// restore loses a claim and its volume, and creates both again as docs/restore.md says.
func (p tenants) restore(claim *corev1.PersistentVolumeClaim, volume string) {
	p.setPolicy(volume, corev1.PersistentVolumeReclaimRetain)
	p.remove(apiserver.Claims, "team", claim.Name)
	p.play(5 * time.Second)
	kept := p.volumeNamed(volume).DeepCopy()
	p.remove(apiserver.Volumes, "", volume)
	p.play(5 * time.Second)
	kept.ObjectMeta = metav1.ObjectMeta{Name: volume, Annotations: kept.Annotations, Finalizers: kept.Finalizers}
	kept.Spec.ClaimRef.UID, kept.Status = "", corev1.PersistentVolumeStatus{}
	kept.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	p.create(apiserver.Volumes, kept)
	again := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: claim.Name, Annotations: claim.Annotations}, Spec: claim.Spec}
	p.create(apiserver.Claims, again)
	p.play(5 * time.Second)
}

// free is what guides say of the volume of a claim that is gone: without its claimRef another claim may have it.
func (p tenants) free(claim *corev1.PersistentVolumeClaim, volume string) {
	p.setPolicy(volume, corev1.PersistentVolumeReclaimRetain)
	p.remove(apiserver.Claims, "team", claim.Name)
	p.play(5 * time.Second)
	p.changeVolume(volume, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil })
	p.play(5 * time.Second)
	p.create(apiserver.Claims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: claim.Name}, Spec: claim.Spec})
	p.play(5 * time.Second)
	p.setPolicy(volume, corev1.PersistentVolumeReclaimDelete)
	p.play(5 * time.Second)
}

// handOver is what an importer does that made a claim of its own for the one that its user waits for: it changes
// claimRef alone.
func (p tenants) handOver(claim *corev1.PersistentVolumeClaim, volume string) {
	spec := *claim.Spec.DeepCopy()
	spec.VolumeName = ""
	p.create(apiserver.Claims, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "filled"}, Spec: spec})
	to := p.claimNamed("filled")
	p.changeVolume(volume, func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "team", Name: "filled", UID: to.UID}
	})
	p.server.Mutate(apiserver.Claims, "team", claim.Name, func(o apiserver.Object) { o.(*corev1.PersistentVolumeClaim).Status.Phase = corev1.ClaimLost })
	p.play(5 * time.Second)
}

func (p tenants) ask(name, size string) {
	p.server.Mutate(apiserver.Claims, "team", name, func(o apiserver.Object) {
		o.(*corev1.PersistentVolumeClaim).Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	})
}

// grow asks for more, and says what came of it.
func (p tenants) grow(name string) string {
	p.ask(name, "2Gi")
	p.play(2 * time.Minute)
	claim := p.claimNamed(name)
	has, made := claim.Status.Capacity[corev1.ResourceStorage], p.volumeNamed(claim.Spec.VolumeName).Spec.Capacity[corev1.ResourceStorage]

	return fmt.Sprintf("claim %s, volume %s", has.String(), made.String())
}

// pods counts the pods of an operation that ran.
func (p tenants) pods(op contract.Operation) (n int) {
	for name := range p.ran {
		if of, _, _, _ := podspec.ParseName(name); of == op {
			n++
		}
	}

	return n
}

// TestVolumeOfAnotherClaim: a volume belongs to the claim that it is bound to, whatever its name. It grows, and is
// removed, as any other. What was restored asks, unless its class says that this is by design.
func TestVolumeOfAnotherClaim(t *testing.T) {
	for name, c := range map[string]struct {
		give    func(p tenants, claim *corev1.PersistentVolumeClaim, volume string)
		to      string
		data    map[string]string
		restart bool
		held    string
	}{
		"restored":                            {give: tenants.restore, to: "data", held: "the volume was restored from a backup after its pod had made it, and its storage may serve others"},
		"restored, by design":                 {give: tenants.restore, to: "data", data: map[string]string{"volumes-handed-over": "true"}},
		"freed by hand":                       {give: tenants.free, to: "data"},
		"handed over":                         {give: tenants.handOver, to: "filled"},
		"restored, and the dispatcher too":    {give: tenants.restore, to: "data", data: map[string]string{"volumes-handed-over": "true"}, restart: true},
		"freed by hand, dispatcher restarted": {give: tenants.free, to: "data", restart: true},
		"handed over, dispatcher restarted":   {give: tenants.handOver, to: "filled", restart: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(p tenants) {
				stop := p.dispatch()
				p.class("silver.good", map[string]string{"expand": "true"})
				for key, value := range c.data {
					p.server.Mutate(apiserver.ConfigMaps, "ns", "silver.good", func(o apiserver.Object) { o.(*corev1.ConfigMap).Data[key] = value })
				}

				p.play(5 * time.Second)
				p.claim("data", "silver.good")
				p.play(3 * time.Hour)
				made := p.claimNamed("data")
				volume := made.Spec.VolumeName
				c.give(p, made, volume)
				if c.restart {
					stop()
					p.ask(c.to, "2Gi") // nobody sees it happen
					stop = p.dispatch()
					p.play(5 * time.Second)
				}

				has := p.claimNamed(c.to)
				if has.UID == made.UID || has.Spec.VolumeName != volume || has.Status.Phase != corev1.ClaimBound {
					t.Fatalf("claim %s is %s, with volume %q", c.to, has.Status.Phase, has.Spec.VolumeName)
				}

				if got := p.grow(c.to); got != "claim 2Gi, volume 2Gi" {
					t.Errorf("grown: %s", got)
				}

				if told := p.said("VolumeDoesNotFit"); len(told) > 0 {
					t.Errorf("told %q", told)
				}

				if n := p.pods(contract.Expand); n != 1 || p.pods(contract.Delete) > 0 {
					t.Errorf("%d pods expanded and %d deleted, want one to expand", n, p.pods(contract.Delete))
				}

				if c.to != "data" {
					p.remove(apiserver.Claims, "team", "data")
					p.play(time.Minute)
				}

				if p.volumeNamed(volume) == nil || p.pods(contract.Delete) > 0 {
					t.Fatal("the storage was removed while a claim has it")
				}

				p.remove(apiserver.Claims, "team", c.to)
				p.play(5 * time.Minute)
				held := p.said("DeletionHeld")
				switch {
				case c.held == "" && (p.volumeNamed(volume) != nil || p.pods(contract.Delete) != 1 || len(held) > 0):
					t.Errorf("it was not removed by one pod, but by %d: %q", p.pods(contract.Delete), held)
				case c.held != "" && (len(held) != 1 || !strings.Contains(held[0], c.held) || p.pods(contract.Delete) > 0):
					t.Errorf("held: %q, want %q", held, c.held)
				}

				stop()
			})
		})
	}
}

// TestLostRecord: a volume that lost its annotations is named, with the command that helps, once an hour and not at
// every change.
func TestLostRecord(t *testing.T) {
	inBubble(t, func(p tenants) {
		stop := p.dispatch()
		p.class("silver.good", map[string]string{"expand": "true"})
		p.play(5 * time.Second)
		p.claim("data", "silver.good")
		p.claim("part", "silver.good")
		p.claim("kept", "silver.good")
		p.play(time.Hour)
		lost, part, kept := p.claimNamed("data").Spec.VolumeName, p.claimNamed("part").Spec.VolumeName, p.claimNamed("kept").Spec.VolumeName
		p.changeVolume(lost, func(v *corev1.PersistentVolume) { v.Annotations = nil })
		p.changeVolume(part, func(v *corev1.PersistentVolume) { delete(v.Annotations, contract.ProvisionedBy) })
		p.changeVolume(kept, func(v *corev1.PersistentVolume) {
			v.Annotations, v.Spec.PersistentVolumeReclaimPolicy = nil, corev1.PersistentVolumeReclaimRetain
		})
		const what = "has no annotation pv.kubernetes.io/provisioned-by, so that nobody expands it or removes its storage; if a pod of this dispatcher made it: "
		about := func(volume string) string { return volume + ": volume " + volume + " of class \"silver.good\" " + what }
		want := []string{about(lost) + "kubectl flex adopt " + lost + " --class silver.good --yes",
			about(part) + "kubectl annotate pv " + part + " pv.kubernetes.io/provisioned-by=p"}
		slices.Sort(want)
		for range 5 {
			p.play(5 * time.Minute)
			p.changeVolume(lost, func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"at": time.Now().String()} })
		}

		if got := p.said("VolumeRecordInvalid"); !slices.Equal(got, want) || p.told("VolumeRecordInvalid") != 2 {
			t.Errorf("told %d times:\n%q\nwant\n%q", p.told("VolumeRecordInvalid"), got, want)
		}

		// Nobody deletes the one that is kept, and its user waits.
		p.grow("kept")
		waits := "kept: the volume waits to be expanded: volume " + kept + " of class \"silver.good\" " + what + "kubectl flex adopt " + kept + " --class silver.good --yes"
		if got := p.said("VolumeRecordInvalid"); !slices.Contains(got, waits) {
			t.Errorf("told %q, want %q", got, waits)
		}

		if got := p.waits("kept"); !strings.HasPrefix(got, "VolumeRecordInvalid ") {
			t.Errorf("the claim's status says %q", got)
		}

		// With the annotation back the signature is valid.
		p.changeVolume(part, func(v *corev1.PersistentVolume) { v.Annotations[contract.ProvisionedBy] = "p" })
		if got := p.grow("part"); got != "claim 2Gi, volume 2Gi" {
			t.Errorf("mended and grown: %s", got)
		}

		stop()
	})
}

// TestVolumeBeingDeleted: the owner of a bound volume is told that somebody deleted it, once an hour.
func TestVolumeBeingDeleted(t *testing.T) {
	inBubble(t, func(p tenants) {
		defer p.dispatch()()

		p.class("silver.good", nil)
		p.play(5 * time.Second)
		p.claim("data", "silver.good")
		p.play(time.Hour)
		p.remove(apiserver.Volumes, "", p.claimNamed("data").Spec.VolumeName)
		p.play(30 * time.Minute)
		if said := p.said("VolumeBeingDeleted"); len(said) != 1 || p.told("VolumeBeingDeleted") != 1 {
			t.Errorf("told %d times: %q, want once", p.told("VolumeBeingDeleted"), said)
		}
	})
}

// TestLostRecordBeforeItsClass: a volume that lost its record is told of, also where its class reaches the dispatcher
// after it.
func TestLostRecordBeforeItsClass(t *testing.T) {
	inBubble(t, func(p tenants) {
		defer p.dispatch()()

		p.create(apiserver.Volumes, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pvc-00000001-0016-4000-8000-000000000001"},
			Spec: corev1.PersistentVolumeSpec{StorageClassName: "silver.good",
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
				ClaimRef:                      &corev1.ObjectReference{Namespace: "team", Name: "gone", UID: "gone"}}})
		p.play(time.Minute)
		if said := p.said("VolumeRecordInvalid"); len(said) > 0 {
			t.Errorf("told %q of a volume of nobody's class", said)
		}

		p.class("silver.good", nil)
		p.play(5 * time.Second)
		if said := p.said("VolumeRecordInvalid"); len(said) != 1 {
			t.Errorf("told %q, want one", said)
		}
	})
}

// TestClassOfReleasedVolume: the class of a volume is the one that it names now, without a restart.
func TestClassOfReleasedVolume(t *testing.T) {
	inBubble(t, func(p tenants) {
		stop := p.dispatch()
		p.class("silver.good", nil)
		p.class("gold.good", nil)
		p.play(5 * time.Second)
		p.claim("data", "silver.good")
		p.play(time.Minute)
		volume := p.claimNamed("data").Spec.VolumeName
		p.remove(apiserver.ConfigMaps, "ns", "silver.good")
		p.remove(apiserver.Claims, "team", "data")
		p.play(time.Minute)
		if said := p.said("ProvisionerConfigMissing"); len(said) != 1 || p.volumeNamed(volume) == nil {
			t.Fatalf("without a ConfigMap: %q", said)
		}

		p.changeVolume(volume, func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "gold.good" })
		p.play(time.Minute)
		for _, asked := range p.asked(contract.Delete) {
			if asked != "example.com/i gold.good map[] map[]" {
				t.Errorf("the delete pod was asked %s", asked)
			}
		}

		if p.volumeNamed(volume) != nil || p.pods(contract.Delete) != 1 {
			t.Errorf("the volume of class gold.good is not removed, by %d pods", p.pods(contract.Delete))
		}

		stop()
	})
}

// TestRefusedAndBoundElsewhere: a claim whose status says that it waits was bound to a volume of somebody else while
// no dispatcher ran.
func TestRefusedAndBoundElsewhere(t *testing.T) {
	inBubble(t, func(p tenants) {
		stop := p.dispatch()
		p.class("silver.good", nil)
		p.claim("data", "silver.good")
		p.server.Mutate(apiserver.Claims, "team", "data", func(o apiserver.Object) {
			o.(*corev1.PersistentVolumeClaim).Spec.Selector = &metav1.LabelSelector{}
		})
		p.play(time.Minute)
		if got := p.waits("data"); !strings.HasPrefix(got, "ClaimRefused ") {
			t.Fatalf("the claim's status says %q", got)
		}

		stop()
		p.server.Mutate(apiserver.Claims, "team", "data", func(o apiserver.Object) {
			claim := o.(*corev1.PersistentVolumeClaim)
			claim.Spec.VolumeName, claim.Status.Phase = "by-hand", corev1.ClaimBound
		})
		stop = p.dispatch()
		p.play(time.Minute)
		if got := p.waits("data"); got != "" {
			t.Errorf("the claim is bound, and its status says %q", got)
		}

		stop()
	})
}

// TestVolumeOfAnotherName: a volume whose name is no claim's is nobody's pod's, whatever it says of its provisioner.
func TestVolumeOfAnotherName(t *testing.T) {
	inBubble(t, func(p tenants) {
		stop := p.dispatch()
		p.class("silver.good", nil)
		p.create(apiserver.Volumes, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pvc-backup", Annotations: map[string]string{contract.ProvisionedBy: "p"}},
			Spec: corev1.PersistentVolumeSpec{StorageClassName: "silver.good", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
				ClaimRef: &corev1.ObjectReference{Namespace: "team", Name: "gone", UID: "backup"}}})
		p.play(time.Minute)
		if said := p.said("VolumeNotOurs"); len(said) != 1 || len(p.ran) > 0 {
			t.Errorf("%d pods ran, and told is %q", len(p.ran), said)
		}

		p.create(apiserver.Volumes, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "by-hand", Annotations: map[string]string{contract.ProvisionedBy: "p"}},
			Spec: corev1.PersistentVolumeSpec{StorageClassName: "manual",
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				ClaimRef:                      &corev1.ObjectReference{Namespace: "team", Name: "data"}}})
		p.create(apiserver.Volumes, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "of-before", Annotations: map[string]string{contract.ProvisionedBy: "p"},
				Finalizers: []string{contract.VolumeFinalizer}},
			Spec: corev1.PersistentVolumeSpec{StorageClassName: "other", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete}})
		p.claim("data", "manual")
		p.play(5 * time.Second)
		p.server.Mutate(apiserver.Volumes, "", "by-hand", func(o apiserver.Object) {
			o.(*corev1.PersistentVolume).Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		})
		p.play(5 * time.Second)
		for _, v := range apiserver.List[*corev1.PersistentVolume](p.server, apiserver.Volumes) {
			if slices.Contains(v.Finalizers, contract.VolumeFinalizer) {
				t.Errorf("volume %s has the finalizer, and no pod will remove its storage", v.Name)
			}
		}

		if said := p.said("ExpansionRefused"); len(said) > 0 {
			t.Errorf("told %q of a claim that has what it asks for", said)
		}

		p.ask("data", "2Gi")
		p.play(5 * time.Second)
		want := []string{"data: the volume is not named pvc-<claim UID>, so no provisioner pod made it, and none can expand it: " +
			"copy the data to a larger claim"}
		if said := p.said("ExpansionRefused"); !slices.Equal(said, want) {
			t.Errorf("told %q, want %q", said, want)
		}

		stop()
	})
}

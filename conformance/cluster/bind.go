package cluster

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/conformance"
)

func (t *trial) checkClass() {
	if len(t.faults) > 0 {
		t.fail(nil, "a ConfigMap for class "+t.class.Name+", without faults", strings.Join(t.faults, "; "),
			"kubectl describe configmap -n "+t.options.ProvisionersNamespace+" shows what the dispatcher says of it")
	}
}

func (t *trial) checkBound() {
	if c, ok := t.bound(t.mode()); ok {
		t.wantGone(c, "after it was bound", "see check delete")
	}
}

func (t *trial) checkVolume() {
	c, ok := t.bound(t.mode())
	if !ok {
		return
	}
	volume := t.volume(c)
	if volume == nil {
		t.fail(c, "the volume is called "+c.volumeName(), "it is called "+c.Spec.VolumeName, "let flexctl create-pv make it")
		return
	}
	if faults := volumeFaults(c.PersistentVolumeClaim, volume, t.class, t.events(claims)); len(faults) > 0 {
		t.fail(c, "the volume fits its claim and lacks nothing", strings.Join(faults, "; "),
			"let flexctl create-pv, or the whole skeleton, make the PersistentVolume")
	}
	t.wantGone(c, "after the comparison", "see check delete")
}

// mode is the first volume mode of the class.
func (s *stage) mode() corev1.PersistentVolumeMode {
	if s.config != nil && len(s.config.VolumeModes) > 0 {
		return s.config.VolumeModes[0]
	}
	return corev1.PersistentVolumeFilesystem
}

// size is the size that claims ask for.
func (s *stage) size() resource.Quantity {
	switch {
	case s.options.Size != "":
		return resource.MustParse(s.options.Size) // it has been validated
	case s.config != nil:
		return *resource.NewQuantity(conformance.SizeOf(s.config), resource.BinarySI)
	}
	return resource.MustParse("1Gi")
}

func (t *trial) checkTwo() {
	one, two := t.claim(t.mode()), t.claim(t.mode())
	for i, c := range []*claim{one, two} {
		if !t.wantBound(c, fmt.Sprintf("claim %d of two is bound", i+1), "let no step depend on being the only one") {
			return
		}
	}
	first, second := t.volume(one), t.volume(two)
	if first == nil || second == nil {
		t.fail(one, "each has a volume", "there is none", "see check volume")
		return
	}
	if shared(first, second) {
		t.fail(one, "each has storage of its own", "both volumes lead to the same", "name the storage after $FLEX_PV_NAME")
		return
	}
	if !t.writes(two) {
		return
	}
	if t.wantGone(one, "after the first of two was deleted", "see check delete") {
		t.reads(two, "after the other was deleted")
	}
	t.wantGone(two, "after the second was deleted", "see check delete")
}

package obstacles

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/observedtest"
)

// What keeps every pod away is said before what is wrong with the class or the claim.
func TestToProvision(t *testing.T) {
	for _, c := range []struct {
		name, also string
		noClass    bool
		want       string
	}{
		{name: "nothing", want: ""},
		{name: "no policies", also: "uncontained", want: "AdmissionPoliciesMissing: a policy is missing"},
		{name: "no policies, and no class", also: "uncontained", noClass: true, want: "AdmissionPoliciesMissing: a policy is missing"},
		{name: "no class", noClass: true, want: `ProvisionerConfigMissing: StorageClass "silver" does not exist`},
		{name: "no class, and no ConfigMap", also: "no-config", noClass: true, want: `ProvisionerConfigMissing: StorageClass "silver" does not exist`},
		{name: "no ConfigMap", also: "no-config", want: "ProvisionerConfigMissing: no ConfigMap"},
	} {
		s := observedtest.Scene{Also: c.also}.Observed()
		if c.noClass {
			s.Class = nil
		}

		got := ""
		if reason, why, blocked := ToProvision(s); reason != "" || blocked {
			got = fmt.Sprintf("%s: %s", reason, why)
		}

		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// The claim's author writes these, and the API server takes them all.
func TestRefusedSizesAndNodes(t *testing.T) {
	for _, c := range []struct{ name, size, node, want string }{
		{name: "plain", size: "2Gi"},
		{name: "least", size: "1Gi"},
		{name: "most", size: "10Gi"},
		{name: "a fraction", size: "1073741824500m"},
		{name: "smaller", size: "1Mi", want: "spec.resources.requests.storage is 1Mi: class silver offers 1Gi and more"},
		{name: "larger", size: "10737418241", want: "spec.resources.requests.storage is 10737418241: class silver offers 10Gi at most"},
		{name: "more than a number of bytes", size: "1e50", want: "spec.resources.requests.storage is 100e48: no storage has so much; ask for less"},
		{name: "the largest number", size: "9223372036854775807", want: "spec.resources.requests.storage is 9223372036854775807: no storage has so much; ask for less"},
		{name: "nothing", size: "0", want: "spec.resources.requests.storage is 0: ask for more than nothing"},
		{name: "a node", size: "2Gi", node: "node-1.example.com"},
		{name: "no node's name", size: "2Gi", node: "node1\n$(rm)",
			want: `annotation volume.kubernetes.io/selected-node is "node1\n$(rm)", which is no name of a node; remove it`},
		{name: "a node's name without end", size: "2Gi", node: strings.Repeat("n", 4000),
			want: `annotation volume.kubernetes.io/selected-node is "` + strings.Repeat("n", 64) + `", which is no name of a node; remove it`},
	} {
		t.Run(c.name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{observed.AnnSelectedNode: c.node}}}
			claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(c.size)}
			config := &configmaps.Config{MinSize: 1 << 30, MaxSize: 10 << 30,
				VolumeModes: []corev1.PersistentVolumeMode{corev1.PersistentVolumeFilesystem}}
			if got := strings.Join(refusals(&observed.Claim{ClassName: "silver", Claim: claim, Config: config}), "; "); got != c.want {
				t.Errorf("refused with %q, want %q", got, c.want)
			}
		})
	}
}

// A provisioner gets an annotation whole or not at all, and only one that its class names.
func TestRefusedAnnotations(t *testing.T) {
	long := strings.Repeat("é", contract.MaxClaimText/2)
	for _, c := range []struct{ text, want string }{
		{text: ""},
		{text: "$(rm) `id` \"quoted\" ../.. ; {a: b}"},
		{text: long},
		{text: long + "a", want: "annotation example.com/path has 257 bytes: class silver takes 256 at most; shorten it"},
		{text: "a\nb", want: `annotation example.com/path is "a\nb": class silver takes one line of printable characters; ` +
			"write it again without the others"},
		{text: "\x1b[2J\x00", want: `annotation example.com/path is "\x1b[2J\x00": class silver takes one line of printable ` +
			"characters; write it again without the others"},
		{text: "a\u202eb", want: `annotation example.com/path is "a\u202eb": class silver takes one line of printable ` +
			"characters; write it again without the others"},
	} {
		s := observedtest.Scene{}.Observed()
		s.Config.ClaimAnnotations = []string{"example.com/path", "example.com/none"}
		s.Claim.Annotations = map[string]string{"example.com/path": c.text, "example.com/other": "\n"}
		reason, why, blocked := ToProvision(s)
		if got := map[bool]string{true: why}[blocked && reason == events.ReasonClaimRefused]; got != c.want {
			t.Errorf("%q: %s %q, want %q", c.text, reason, why, c.want)
		}

		s.Config.ClaimAnnotations = nil
		if reason, why, _ := ToProvision(s); reason != "" {
			t.Errorf("%q, which the class does not name: %s %s", c.text, reason, why)
		}
	}
}

// Without bounds a class takes any number of bytes.
func TestSizesWithoutBounds(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("8Ei")}
	if got, want := refusedSize(observed.Requested(claim), "silver", &configmaps.Config{}), "spec.resources.requests.storage is 9223372036854775807: no storage has so much; ask for less"; got != want {
		t.Errorf("refused with %q, want %q", got, want)
	}

	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("7Ei")
	if got := refusedSize(observed.Requested(claim), "silver", &configmaps.Config{}); got != "" {
		t.Errorf("refused with %q", got)
	}
}

// A claim whose access modes nobody knows stays refused, however many it has and wherever among them they are.
func TestUnknownModes(t *testing.T) {
	known := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod}
	config := &configmaps.Config{AccessModes: known, VolumeModes: []corev1.PersistentVolumeMode{corev1.PersistentVolumeFilesystem}}
	for _, unknown := range []int{1, 5, 1000} {
		claim := &corev1.PersistentVolumeClaim{}
		claim.Spec.AccessModes = append(claim.Spec.AccessModes, known...)
		for i := range unknown {
			claim.Spec.AccessModes = append(claim.Spec.AccessModes, corev1.PersistentVolumeAccessMode(fmt.Sprint("Odd", i)))
		}

		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		claim.Spec.AccessModes = cache.DistinctModes(claim.Spec.AccessModes)
		faults := refusals(&observed.Claim{ClassName: "silver", Claim: claim, Config: config})
		if want := "spec.accessModes has Odd0: class silver offers ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod"; len(faults) == 0 || faults[0] != want || len(faults) > 8 {
			t.Errorf("%d unknown modes: refused with %q, want %q first and no more than 8", unknown, faults, want)
		}
	}
}

package obstacles

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/observedtest"
)

// wish makes the claim ask for a clone in every way that there is.
type wish struct {
	annotation, dataSource string
	kind, namespace, group string
}

func (w wish) on(claim *corev1.PersistentVolumeClaim) {
	if w.annotation != "" {
		claim.Annotations[contract.AnnCloneRequest] = w.annotation
	}

	if w.dataSource != "" {
		ref := &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: w.dataSource}
		if w.kind != "" {
			ref.Kind = w.kind
		}

		if w.namespace != "" {
			ref.Namespace = &w.namespace
		}

		if w.group != "" {
			ref.APIGroup = &w.group
		}

		claim.Spec.DataSourceRef = ref
	}
}

// sourceClaim is a bound claim and its volume; spoil makes it less than that.
func sourceClaim(spoil string) observed.CloneSource {
	o := observed.CloneSource{
		Claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "original", UID: "original-uid"},
			Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: "pvc-original-uid"},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}},
		Volume: &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-original-uid"}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{UID: "original-uid"},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}
	block := corev1.PersistentVolumeBlock
	switch spoil {
	case "missing":
		return observed.CloneSource{}
	case "pending":
		o.Claim.Status.Phase = corev1.ClaimPending
	case "no volume":
		o.Volume = nil
	case "another's volume":
		o.Volume.Spec.ClaimRef.UID = types.UID("another")
	case "large":
		o.Volume.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("2Gi")
	case "block":
		o.Volume.Spec.VolumeMode = &block
	}

	return o
}

func TestClones(t *testing.T) {
	source := &contract.Source{Namespace: "team-a", Name: "original", VolumeName: "pvc-original-uid"}
	const waits = "the claim asks to be a clone of original, which is not bound; it waits for it"
	for _, c := range []struct {
		name, spoil string
		wish        wish
		notAllowed  bool
		want        *contract.Source
		refused     string
		awaited     string
	}{
		{name: "no clone", notAllowed: true},
		{name: "a name", wish: wish{annotation: "original"}, want: source},
		{name: "a name with namespace", wish: wish{annotation: "team-a/original"}, want: source},
		{name: "the standard field", wish: wish{dataSource: "original"}, want: source},
		{name: "both", wish: wish{annotation: "team-a/original", dataSource: "original"}, want: source},
		{name: "two claims", wish: wish{annotation: "original", dataSource: "other"},
			refused: "annotation k8s.io/CloneRequest asks for a clone of original, and spec.dataSource for one of other; remove one of them"},
		{name: "another namespace", wish: wish{annotation: "team-b/original"},
			refused: `annotation k8s.io/CloneRequest is "team-b/original": only claims of namespace team-a can be cloned into it`},
		{name: "another namespace in the standard field", wish: wish{dataSource: "original", namespace: "team-b"},
			refused: "spec.dataSourceRef is of namespace team-b: only claims of namespace team-a can be cloned into it"},
		{name: "no name", wish: wish{annotation: "team-a/"},
			refused: `annotation k8s.io/CloneRequest is "team-a/": it must be the name of a claim in the same namespace`},
		{name: "a path", wish: wish{annotation: "team-a/../x"},
			refused: `annotation k8s.io/CloneRequest is "team-a/../x": it must be the name of a claim in the same namespace`},
		{name: "a name that is too long", wish: wish{annotation: strings.Repeat("x", 254)},
			refused: "the claim asks to be a clone of one whose name has 254 characters; names have at most 253"},
		{name: "itself", wish: wish{annotation: "data"}, refused: "the claim asks to be a clone of itself; name another one"},
		{name: "a foreign kind of the same name", wish: wish{dataSource: "s", group: "example.com"},
			refused: `spec.dataSourceRef is PersistentVolumeClaim "s": a new volume is empty, a clone of a PersistentVolumeClaim, or restored from a VolumeSnapshot; remove it, or wait for a populator of its kind`},
		{name: "a class without clones", wish: wish{annotation: "original"}, notAllowed: true,
			refused: `the claim asks to be a clone of original: class silver makes empty volumes only; its administrator can allow clones with parameter smartclone: "true" if its provisioner makes them`},
		{name: "larger than the clone", wish: wish{annotation: "original"}, spoil: "large", want: source,
			refused: "spec.resources.requests.storage is 1Gi: a clone of original cannot be smaller than its 2Gi"},
		{name: "another mode", wish: wish{annotation: "original"}, spoil: "block", want: source,
			refused: "spec.volumeMode is Filesystem: a clone of original has to be Block like it"},
		{name: "missing", wish: wish{annotation: "original"}, spoil: "missing", awaited: "the claim asks to be a clone of original, which does not exist; it waits for it"},
		{name: "pending", wish: wish{annotation: "original"}, spoil: "pending", awaited: waits},
		{name: "volume not known yet", wish: wish{annotation: "original"}, spoil: "no volume", awaited: waits},
		{name: "volumeName of another's volume", wish: wish{annotation: "original"}, spoil: "another's volume", awaited: waits},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := observedtest.Scene{}.Observed()
			c.wish.on(f.Claim)
			f.Source = sourceClaim(c.spoil)
			if !c.notAllowed {
				f.Class.Parameters = map[string]string{"smartclone": "true"}
			}

			if got := refusedClone(f); got != c.refused {
				t.Errorf("refused %q\nwant %q", got, c.refused)
			}

			if got := missingSource(f); c.refused == "" && got != c.awaited {
				t.Errorf("awaits %q\nwant %q", got, c.awaited)
			}

			if c.refused == "" {
				pod, err := f.Pod(observed.AttemptSpec{Op: contract.Provision}, podspec.Cluster{})
				if err != nil {
					t.Fatal(err)
				}

				request, err := podspec.RequestOf(pod)
				if err != nil || !reflect.DeepEqual(request.Source, c.want) {
					t.Errorf("source %+v, %v, want %+v", request.Source, err, c.want)
				}
			}
		})
	}
}

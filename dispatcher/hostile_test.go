package dispatcher

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

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
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annSelectedNode: c.node}}}
			claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(c.size)}
			config := &configmaps.Config{StorageClass: "silver", MinSize: 1 << 30, MaxSize: 10 << 30,
				VolumeModes: []corev1.PersistentVolumeMode{corev1.PersistentVolumeFilesystem}}
			if got := joined(refusals(claim, config)); got != c.want {
				t.Errorf("refused with %q, want %q", got, c.want)
			}
		})
	}
}

// Without bounds a class takes any number of bytes.
func TestSizesWithoutBounds(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("8Ei")}
	if got, want := refusedSize(requestOf(claim), &configmaps.Config{}), "spec.resources.requests.storage is 9223372036854775807: no storage has so much; ask for less"; got != want {
		t.Errorf("refused with %q, want %q", got, want)
	}
	claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("7Ei")
	if got := refusedSize(requestOf(claim), &configmaps.Config{}); got != "" {
		t.Errorf("refused with %q", got)
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"oidc:alice@example.com":              "oidc:alice@example.com",
		"CN=Jörg $(PASSWORD) `id`, O=x":       "CN=Jörg $(PASSWORD) `id`, O=x", // the pod's environment doubles every $
		"alice\nFLEX_OPERATION=delete":        "",
		"alice\x00":                           "",
		"\x1b[2Jalice":                        "",
		"alice\u202eecila":                    "",
		"alice\u2028bob":                      "",
		"\xff":                                "",
		strings.Repeat("a", maxCreator):       strings.Repeat("a", maxCreator),
		strings.Repeat("a", maxCreator) + "a": "",
	} {
		if got := printable(text); got != want {
			t.Errorf("printable(%.40q) = %.40q, want %.40q", text, got, want)
		}
	}
}

// What a volume's fields say goes into an event as one bounded line.
func TestEventsAreBounded(t *testing.T) {
	recorder := record.NewFakeRecorder(1)
	d := &Dispatcher{intake: newIntake(), recorder: recorder, metrics: newMetrics(prometheus.NewRegistry())}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{Namespace: "a\x1b[2J\nb", Name: strings.Repeat("ä", 5000)}}}
	d.tell(t.Context(), &facts{uid: "u", claim: claim}, report{on: onClaim, key: "k", warning: true,
		reason: ReasonClaimRefused, message: joined(podspec.Misfits(volume, claim))})
	got := <-recorder.Events
	want := "Warning ClaimRefused spec.claimRef is a [2J b/ää"
	if !strings.HasPrefix(got, want) || len(got) > len("Warning ClaimRefused ")+maxEvent || !strings.HasSuffix(got, "ä...") {
		t.Errorf("event of %d bytes: %.80q…, want %q… and at most %d bytes", len(got), got, want, maxEvent)
	}
}

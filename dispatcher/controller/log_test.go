package controller

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/podlog"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// TestSayLog: who reads what of the log of a pod that left no message.
func TestSayLog(t *testing.T) {
	const denied = "rm: can't remove '/export/pvc-1/d': Permission denied"
	log := func(text string) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/log") || r.URL.Query().Get("tailLines") != "10" || r.URL.Query().Get("limitBytes") != "65536" || r.URL.Query().Get("container") != podspec.ContainerName {
				t.Errorf("asked for %s", r.URL)
			}

			_, _ = w.Write([]byte(text))
		}
	}
	const failed, onPod = "Warning ProvisionerFailed no message (pod ns/del-" + dispatchertest.UID + "-0)", "Warning ProvisionerLog pod del-" + dispatchertest.UID + "-0 for claim team-a/data: "
	for name, c := range map[string]struct {
		on     events.Target
		answer func(w http.ResponseWriter, r *http.Request)
		config *configmaps.Config
		gone   bool // the ConfigMap
		want   []string
	}{
		"a volume": {on: events.OnVolume, answer: log(denied + "\n"), config: &configmaps.Config{Name: "cm"},
			want: []string{failed + "; its log ends with: " + denied}},
		"a volume whose class is gone": {on: events.OnVolume, answer: log(denied), want: []string{failed + "; its log ends with: " + denied}},
		"a pod":                        {on: events.OnPod, answer: log(denied), config: &configmaps.Config{Name: "cm"}, want: []string{failed + "; its log ends with: " + denied}},
		"a claim": {on: events.OnClaim, answer: log(denied), config: &configmaps.Config{Name: "cm"},
			want: []string{onPod + denied, failed + "; administrators find the end of its log in the events of ConfigMap ns/cm"}},
		"a claim of a class that shows logs": {on: events.OnClaim, answer: log(denied), config: &configmaps.Config{Name: "cm", ShowLogs: true},
			want: []string{onPod + denied, failed + "; its log ends with: " + denied}},
		"a claim whose ConfigMap is gone": {on: events.OnClaim, answer: log(denied), config: &configmaps.Config{Name: "cm"}, gone: true,
			want: []string{onPod + denied, failed + "; administrators find the end of its log in the events of Pod ns/del-" + dispatchertest.UID + "-0"}},
		"a claim whose configuration is unknown": {on: events.OnClaim, answer: log(denied),
			want: []string{onPod + denied, failed + "; administrators find the end of its log in the events of Pod ns/del-" + dispatchertest.UID + "-0"}},
		"nothing printed": {on: events.OnClaim, answer: log(" \n"), config: &configmaps.Config{Name: "cm"},
			want: []string{failed + "; it printed nothing"}},
		"a node that is gone": {on: events.OnVolume, answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			config: &configmaps.Config{Name: "cm"}, want: []string{failed + "; its log cannot be read"}},
		"a hostile log": {on: events.OnVolume, answer: log(strings.Repeat("a\x1b[2J\u202e\n", 20_000) + denied), config: &configmaps.Config{Name: "cm"},
			want: []string{failed + "; its log ends with: " + podlog.End(strings.Repeat("a [2J ", 1000)+denied)}},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(c.answer))
			defer server.Close()

			controller, _ := idle(t)
			controller.Client = kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
			if !c.gone {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cm"}}
				if err := controller.Cache.ConfigMaps.GetStore().Add(cm); err != nil {
					t.Fatal(err)
				}
			}

			pod := dispatchertest.Pod("del-0 failed", dispatchertest.Noon, dispatchertest.Noon)
			pod.Annotations[contract.AnnClaim] = "team-a/data"
			e := events.AttemptProblem(c.on, pod, podspec.ReasonFailed, "no message")
			e.WithPodLog = true
			start := func(client kubernetes.Interface) func() { return controller.Recorder.Start(t.Context(), client) }
			got := apiserver.Noted(start, func() {
				controller.recordAll(&observed.Claim{UID: dispatchertest.UID, ClassName: "silver", Config: c.config, Volume: dispatchertest.Volume("released"),
					Claim: &corev1.PersistentVolumeClaim{}}, []events.Event{e})
			})
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("recorded\n%q, want\n%q", got, c.want)
			}
		})
	}
}

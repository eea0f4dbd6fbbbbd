package writer

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

var (
	volume  = &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "v", ResourceVersion: "7"}}
	claim   = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "data", UID: "c", ResourceVersion: "8"}}
	content = &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "snapcontent-1", UID: "s", ResourceVersion: "9", Finalizers: []string{"other", contract.ContentFinalizer}}}
	pod     = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "prov-1-0", UID: "p"}}
)

// writes are what is sent: method, path, form and body, one line for each request.
var writes = []struct {
	name string
	do   func(ctx context.Context, w Writer) error
	want string
}{
	{"repair", func(ctx context.Context, w Writer) error {
		return w.RepairVolume(ctx, volume, map[string]any{"metadata": map[string]any{"uid": volume.UID}})
	}, `PATCH /api/v1/persistentvolumes/pvc-1 merge {"metadata":{"uid":"v"}}`},
	{"clone of", func(ctx context.Context, w Writer) error { return w.SetCloneOf(ctx, claim, "team/source") },
		`PATCH /api/v1/namespaces/team/persistentvolumeclaims/data merge {"metadata":{"annotations":{"k8s.io/CloneOf":"team/source"},"uid":"c"}}`},
	{"capacity", func(ctx context.Context, w Writer) error {
		return w.SetCapacity(ctx, volume, resource.MustParse("2Gi"))
	}, `PATCH /api/v1/persistentvolumes/pvc-1 merge {"metadata":{"resourceVersion":"7","uid":"v"},"spec":{"capacity":{"storage":"2Gi"}}}`},
	{"reschedule", func(ctx context.Context, w Writer) error { return w.Reschedule(ctx, claim) },
		`PATCH /api/v1/namespaces/team/persistentvolumeclaims/data merge {"metadata":{"annotations":{"volume.kubernetes.io/selected-node":null},"resourceVersion":"8"}}`},
	{"retract", func(ctx context.Context, w Writer) error { return w.RetractVolume(ctx, volume) },
		`DELETE /api/v1/persistentvolumes/pvc-1 {"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"v","resourceVersion":"7"}}`},
	{"delete volume", func(ctx context.Context, w Writer) error { return w.DeleteVolume(ctx, volume) },
		`DELETE /api/v1/persistentvolumes/pvc-1 {"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"v"}}
PATCH /api/v1/persistentvolumes/pvc-1 strategic-merge {"metadata":{"$deleteFromPrimitiveList/finalizers":["external-provisioner.volume.kubernetes.io/finalizer"],"managedFields":[{}],"uid":"v"}}`},
	{"annotate a pod", func(ctx context.Context, w Writer) error { return w.AnnotatePod(ctx, pod, contract.AnnSettled, "true") },
		`PATCH /api/v1/namespaces/ns/pods/prov-1-0 strategic-merge {"metadata":{"annotations":{"flex-provisioner.io/settled":"true"},"uid":"p"}}`},
	{"release", func(ctx context.Context, w Writer) error { return w.RemovePodFinalizer(ctx, pod, false) },
		`PATCH /api/v1/namespaces/ns/pods/prov-1-0 strategic-merge {"metadata":{"$deleteFromPrimitiveList/finalizers":["flex-provisioner.io/outcome-recorded"],"uid":"p"}}`},
	{"release for the last time", func(ctx context.Context, w Writer) error { return w.RemovePodFinalizer(ctx, pod, true) },
		`PATCH /api/v1/namespaces/ns/pods/prov-1-0 strategic-merge {"metadata":{"$deleteFromPrimitiveList/finalizers":["flex-provisioner.io/outcome-recorded"],"managedFields":[{}],"uid":"p"}}`},
	{"delete pod", func(ctx context.Context, w Writer) error { return w.DeletePod(ctx, pod, OwnGrace) },
		`DELETE /api/v1/namespaces/ns/pods/prov-1-0 {"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"p"}}`},
	{"create content", func(ctx context.Context, w Writer) error {
		return w.CreateContent(ctx, &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "snapcontent-1"}})
	}, `POST /apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents json {"kind":"VolumeSnapshotContent","apiVersion":"snapshot.storage.k8s.io/v1","metadata":{"name":"snapcontent-1"},"spec":{"volumeSnapshotRef":{},"deletionPolicy":"","driver":"","source":{},"sourceVolumeMode":null}}`},
	{"content is ready", func(ctx context.Context, w Writer) error {
		return w.SetContentReady(ctx, content, "snap-1", time.Unix(1, 5), 1<<30)
	}, `PATCH /apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/snapcontent-1/status merge {"metadata":{"uid":"s"},"status":{"creationTime":1000000005,"error":null,"readyToUse":true,"restoreSize":1073741824,"snapshotHandle":"snap-1"}}`},
	{"content of unknown size is ready", func(ctx context.Context, w Writer) error {
		return w.SetContentReady(ctx, content, "snap-1", time.Unix(1, 5), 0)
	}, `PATCH /apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/snapcontent-1/status merge {"metadata":{"uid":"s"},"status":{"creationTime":1000000005,"error":null,"readyToUse":true,"snapshotHandle":"snap-1"}}`},
	{"content has an error, unless it changed", func(ctx context.Context, w Writer) error {
		return w.SetContentError(ctx, content, "no room", time.Unix(1, 0).UTC())
	}, `PATCH /apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/snapcontent-1/status merge {"metadata":{"resourceVersion":"9","uid":"s"},"status":{"error":{"message":"no room","time":"1970-01-01T00:00:01Z"},"readyToUse":false}}`},
	{"finish content", func(ctx context.Context, w Writer) error { return w.FinishContent(ctx, content) },
		`PATCH /apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/snapcontent-1 merge {"metadata":{"annotations":{"snapshot.storage.kubernetes.io/volumesnapshot-being-created":null},"uid":"s"}}`},
	{"release content", func(ctx context.Context, w Writer) error { return w.ReleaseContent(ctx, content) },
		`PATCH /apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents/snapcontent-1 merge {"metadata":{"finalizers":["other"],"resourceVersion":"9","uid":"s"}}`},
	{"delete pod at once", func(ctx context.Context, w Writer) error { return w.DeletePod(ctx, pod, 0) },
		`DELETE /api/v1/namespaces/ns/pods/prov-1-0 {"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"p"}}`},
}

func TestWrites(t *testing.T) {
	for _, c := range writes {
		t.Run(c.name, func(t *testing.T) {
			var sent []string
			w := served(t, func(r *http.Request, body string) (int, string) {
				form := strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Content-Type"), "application/"), "-patch+json")
				words := []string{r.Method, r.URL.Path, form, strings.TrimSpace(body)}
				if r.Method == http.MethodDelete {
					words = []string{r.Method, r.URL.Path, strings.TrimSpace(body)}
				}

				sent = append(sent, strings.Join(words, " "))

				return http.StatusOK, `{"kind":"Status","apiVersion":"v1","status":"Success"}`
			})
			if err := c.do(t.Context(), w); err != nil {
				t.Fatal(err)
			}

			if got := strings.Join(sent, "\n"); got != c.want {
				t.Errorf("sent\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// An error names the object. What is gone needs no patch.
func TestWriteErrors(t *testing.T) {
	for _, c := range writes {
		conflict := map[string]string{"persistentvolumes/": "persistentvolumes pvc-1", "persistentvolumeclaims/": "persistentvolumeclaims team/data", "pods/": "pods ns/prov-1-0",
			"volumesnapshotcontents/": "VolumeSnapshotContent snapcontent-1"}
		for path, object := range conflict {
			if !strings.Contains(c.want, path) {
				continue
			}

			conflicts, gone := "patch "+object+": no", ""
			if strings.HasPrefix(c.want, "DELETE") {
				conflicts = map[string]string{"persistentvolumes/": "delete volume pvc-1: no", "pods/": "delete pod ns/prov-1-0: no"}[path]
				if c.name != "delete volume" {
					gone = conflicts
				}
			}

			for reason, want := range map[metav1.StatusReason]string{metav1.StatusReasonConflict: conflicts, metav1.StatusReasonNotFound: gone} {
				code := map[metav1.StatusReason]int{metav1.StatusReasonConflict: http.StatusConflict, metav1.StatusReasonNotFound: http.StatusNotFound}[reason]
				w := served(t, func(*http.Request, string) (int, string) {
					return code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"no","code":%d}`, reason, code)
				})
				if err := c.do(t.Context(), w); (err == nil) != (want == "") || err != nil && err.Error() != want {
					t.Errorf("%s, %s: %v, want %q", c.name, reason, err, want)
				}
			}
		}
	}
}

func served(t *testing.T, answer func(r *http.Request, body string) (code int, answer string)) Writer {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}

		code, text := answer(r, string(body))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if _, err := io.WriteString(w, text); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)

	config := &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}

	return Writer{Client: kubernetes.NewForConfigOrDie(config), Snapshots: snapshotclient.NewForConfigOrDie(config)}
}

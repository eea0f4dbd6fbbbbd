package controller

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
	"github.com/flex-provisioner/flex-provisioner/test/observedtest"
)

// serve has the controller read from an API server without saved pods. answer is the object at a path, nil for none.
func serve(t *testing.T, controller *Controller, answer func(path string) any) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		object := answer(r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "/controllerrevisions") {
			object = &appsv1.ControllerRevisionList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevisionList"}}
		}

		if object == nil {
			w.WriteHeader(http.StatusNotFound)
			object = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
		}

		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	controller.reader.Client = kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
}

// A pod of a former leader, which the cache does not show, keeps a delete back, and so do deletions that began since the first look.
func TestConfirmDelete(t *testing.T) {
	volume := dispatchertest.Volume("fits released")
	volume.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
	volume.CreationTimestamp.Time = dispatchertest.Noon.Add(-48 * time.Hour)
	for name, c := range map[string]struct {
		live  []string
		began int // deletions of the class's old volumes
		want  bool
	}{
		"no pod":                          {nil, 0, true},
		"an expansion runs":               {[]string{"exp-3 running"}, 0, false},
		"a provision runs":                {[]string{"prov-0 running"}, 0, false},
		"an expansion is over":            {[]string{"exp-3 done"}, 0, true},
		"two other deletions began":       {nil, 2, true},
		"as many began as the limit says": {nil, 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			pods := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
			for _, words := range c.live {
				pods.Items = append(pods.Items, *dispatchertest.Pod(words, dispatchertest.Noon.Add(-time.Minute), dispatchertest.Noon))
			}

			controller, _ := idle(t)
			serve(t, controller, func(path string) any {
				switch {
				case strings.Contains(path, "/persistentvolumes/"):
					return volume
				case strings.HasSuffix(path, "/pods"):
					return &pods
				}

				return nil
			})
			config := &configmaps.Config{Name: "cm", Digest: "d1", StorageClass: "silver", StartTimeout: time.Minute}
			controller.memory.setConfig("silver", config, "")
			s := &observed.Claim{Now: dispatchertest.Noon, UID: dispatchertest.UID, ClassName: "silver", Provisioner: "p", Class: &storagev1.StorageClass{Provisioner: "p"}, Volume: volume, Config: config}
			create, ok := reconcile.Find[reconcile.CreatePod](reconcile.Decide(s))
			if !ok || create.Op != contract.Delete {
				t.Fatal("the cache alone leads to no delete")
			}

			for i := range c.began {
				controller.memory.deletionBegan("silver", uidOf(i), dispatchertest.Noon)
			}

			if err := controller.confirm(t.Context(), s, &create.AttemptSpec); err != nil {
				t.Fatal(err)
			}

			if _, got := reconcile.Find[reconcile.CreatePod](reconcile.Decide(s)); got != c.want {
				t.Errorf("a delete is ordered: %t, want %t", got, c.want)
			}
		})
	}
}

// A delete goes to the storage that the API server says the class mounts, whatever the cache shows.
func TestConfirmPlaces(t *testing.T) {
	const made, another = "/e1", "/e2"
	for live, want := range map[string]bool{made: true, another: false, "": false} {
		s := observedtest.Scene{Claim: "none", Volume: "fits released placed", Also: "mounted"}.Observed()
		volume := s.Volume.DeepCopy()
		volume.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
		claim := &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "exports", UID: "e"},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "export"}}
		export := &corev1.PersistentVolume{TypeMeta: volume.TypeMeta, ObjectMeta: metav1.ObjectMeta{Name: "export"},
			Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "exports", UID: "e"}}}
		claim.Status.Phase, export.Status.Phase = corev1.ClaimBound, corev1.VolumeBound
		export.Spec.NFS = &corev1.NFSVolumeSource{Server: "a", Path: made}
		controller, _ := idle(t)
		for of, object := range map[interface{ Add(obj any) error }]any{
			controller.Cache.Claims.GetIndexer(): claim, controller.Cache.Volumes.GetIndexer(): export.DeepCopy()} {
			if err := of.Add(object); err != nil {
				t.Fatal(err)
			}
		}

		export.Spec.NFS.Path = live
		serve(t, controller, func(path string) any {
			switch {
			case strings.HasSuffix(path, "/persistentvolumes/export"):
				return export
			case strings.Contains(path, "/persistentvolumes/"):
				return volume
			case strings.HasSuffix(path, "/persistentvolumeclaims/exports") && live != "":
				return claim
			case strings.HasSuffix(path, "/pods"):
				return &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
			}

			return nil
		})
		controller.memory.setConfig(s.ClassName, s.Config, "")
		create, ok := reconcile.Find[reconcile.CreatePod](reconcile.Decide(s))
		if !ok || create.Op != contract.Delete {
			t.Fatal("the cache alone leads to no delete")
		}

		if err := controller.confirm(t.Context(), s, &create.AttemptSpec); err != nil {
			t.Fatal(err)
		}

		if _, got := reconcile.Find[reconcile.CreatePod](reconcile.Decide(s)); got != want {
			t.Errorf("claim exports is %q: a delete is ordered: %t, want %t", live, got, want)
		}
	}
}

// An expansion for the claim that a volume was given to relies on what the API server says of that claim, and of the
// class.
func TestConfirmHolder(t *testing.T) {
	for name, c := range map[string]struct {
		change func(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume)
		want   string
	}{
		"as the cache has it": {func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {}, "true <nil>"},
		"it asks for less": {func(claim *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Gi")
		}, "false <nil>"},
		"it is being deleted": {func(claim *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			claim.DeletionTimestamp = &metav1.Time{Time: dispatchertest.Noon}
		}, "false <nil>"},
		"another has its name": {func(claim *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) { claim.UID = "third" }, "false <nil>"},
		"it names another volume": {func(claim *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
			claim.Spec.VolumeName = "by-hand"
		}, "false <nil>"},
		"the volume was given to a third": {func(_ *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) {
			volume.Spec.ClaimRef.UID = "third"
		}, "false <nil>"},
		"the volume was given to no claim": {func(_ *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) {
			volume.Spec.ClaimRef.Name = "../x"
		}, "false <nil>"},
		"the volume is of another class": {func(_ *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) {
			volume.Spec.StorageClassName = "gold"
		}, `claim ` + dispatchertest.UID + ` is of class "gold" by now, and the caches show class "silver"`},
	} {
		s := observedtest.Scene{Claim: "none", Volume: "bound", Also: "another-has"}.Observed()
		claim, volume := s.Other.DeepCopy(), s.Volume.DeepCopy()
		claim.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
		volume.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
		volume.Annotations[contract.ProvisionedBy] = "p"
		c.change(claim, volume)
		create, ok := reconcile.Find[reconcile.CreatePod](reconcile.Decide(s))
		if !ok || create.Op != contract.Expand {
			t.Fatal("the cache alone leads to no expansion")
		}

		controller, _ := idle(t)
		controller.memory.setConfig("silver", s.Config, "")
		serve(t, controller, func(path string) any {
			switch {
			case strings.Contains(path, "/persistentvolumes/"):
				return volume
			case strings.HasSuffix(path, "/persistentvolumeclaims/filled"):
				return claim
			case strings.HasSuffix(path, "/pods"):
				return &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
			}

			return nil
		})
		err := controller.confirm(t.Context(), s, &create.AttemptSpec)
		got := fmt.Sprint(err)
		if err == nil {
			_, creates := reconcile.Find[reconcile.CreatePod](reconcile.Decide(s))
			got = fmt.Sprint(creates, " ", err)
		}

		if got != c.want {
			t.Errorf("%s: an expansion is ordered: %s, want %s", name, got, c.want)
		}
	}
}

// What an attempt may have made is not undone by the word of a cache that shows the class as it was, and is undone by that of the API server.
func TestConfirmClass(t *testing.T) {
	name := "silver"
	claim := &corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data", UID: dispatchertest.UID}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &name}}
	pod := dispatchertest.Pod("prov-0 failed", dispatchertest.Noon.Add(-time.Hour), dispatchertest.Noon.Add(-time.Minute))
	for _, c := range []struct {
		cached, live string
		want         contract.Operation
	}{{"csi.example.com", "p", contract.Provision}, {"csi.example.com", "csi.example.com", contract.Delete}, {"p", "csi.example.com", contract.Delete}, {"p", "p", contract.Provision}} {
		class := func(provisioner string) *storagev1.StorageClass {
			return &storagev1.StorageClass{TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"}, ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner}
		}
		controller, _ := idle(t)
		serve(t, controller, func(path string) any {
			switch {
			case strings.HasSuffix(path, "/storageclasses/silver"):
				return class(c.live)
			case strings.HasSuffix(path, "/persistentvolumeclaims/data"):
				return claim
			case strings.HasSuffix(path, "/pods"):
				return &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{*pod}}
			}

			return nil
		})
		controller.memory.handOver(dispatchertest.UID, func(m *claimMemory) { m.wanted = true }, func() {})
		config := &configmaps.Config{Name: "cm", Digest: "d1", StorageClass: name, StartTimeout: time.Minute, Properties: map[string]string{"zone": "west"},
			VolumeModes: []corev1.PersistentVolumeMode{corev1.PersistentVolumeFilesystem}}
		controller.memory.setConfig(name, config, "")
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		s := &observed.Claim{Now: dispatchertest.Noon, UID: dispatchertest.UID, ClassName: name, Provisioner: "p", Class: class(c.cached), Claim: claim, Config: config, Wanted: true}
		s.Add(observed.NewAttempt(pod, ""))
		create, ok := reconcile.Find[reconcile.CreatePod](reconcile.Decide(s))
		if cached := map[string]contract.Operation{"p": contract.Provision, "csi.example.com": contract.Delete}[c.cached]; !ok || create.Op != cached {
			t.Errorf("class of %s: the cache alone leads to %q, want %s", c.cached, create.Op, cached)
		}

		if err := controller.confirm(t.Context(), s, &create.AttemptSpec); err != nil {
			t.Error(err)
		}

		if create, _ := reconcile.Find[reconcile.CreatePod](reconcile.Decide(s)); create.Op != c.want {
			t.Errorf("class of %s, which the cache shows as of %s: %q is ordered, want %s", c.live, c.cached, create.Op, c.want)
		}
	}
}

// A dispatcher that was stopped between its reads and the creation of a pod may not be the leader any more.
func TestStaleFactsMakeNoPod(t *testing.T) {
	for age, want := range map[time.Duration]string{
		stale / 2:           "<nil>",
		stale + time.Second: "create pod ns/prov-" + dispatchertest.UID + "-0: what it relies on was read 11s ago and may have changed",
	} {
		asked := false
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = true
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409}`)
		}))
		controller, _ := idle(t)
		controller.writer.Client = kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data", UID: dispatchertest.UID}}
		s := &observed.Claim{Now: dispatchertest.Noon, UID: dispatchertest.UID, ClassName: "silver", Claim: claim, Class: &storagev1.StorageClass{}, RecordKey: dispatchertest.Key,
			Config: &configmaps.Config{Name: "cm", StorageClass: "silver", Timeout: time.Minute}, Confirmed: time.Now().Add(-age)}
		_, err := controller.createPod(t.Context(), s, observed.AttemptSpec{Op: contract.Provision}, stale)
		server.Close()
		if got := fmt.Sprint(err); got != want || asked != (err == nil) {
			t.Errorf("after %s: %s, and the API server was asked: %t; want %s", age, got, asked, want)
		}
	}
}

// TestConfigOfGoneClass: by whose ConfigMap storage is removed when its StorageClass is gone. What an image wrote decides nothing.
func TestConfigOfGoneClass(t *testing.T) {
	const waits = `namespace ns has no provisioner ConfigMap for class "copy": an administrator has to create one there with the labels storage-class and type=provisioner-config; ` +
		`StorageClass "copy" does not exist: if it had the parameter flex-provisioner.io/config-from-class, create it again`
	for name, c := range map[string]struct {
		volume  string // words of dispatchertest.Volume, empty for none
		stamp   string
		pod     string
		class   *storagev1.StorageClass
		own     bool
		want    string
		problem string
	}{
		"signed":                         {volume: "released", stamp: "custom/7@d1", want: "custom"},
		"forged":                         {volume: "released forged", stamp: "custom/7@d1", problem: waits},
		"no record":                      {volume: "released bare", problem: waits},
		"an administrator's word":        {volume: "released forged trusted", stamp: "custom/7@d1", problem: waits},
		"a ConfigMap that is gone":       {volume: "released", stamp: "gone/7@d1", problem: waits},
		"another dispatcher's ConfigMap": {volume: "released", stamp: "others/7@d1", problem: waits},
		"a name that is a path":          {volume: "released", stamp: "../ns/custom/7@d1", problem: waits},
		"a ConfigMap of its own":         {volume: "released", stamp: "custom/7@d1", own: true, want: "own"},
		"an attempt without a volume":    {pod: "custom/7@d1", want: "custom"},
		"a forged volume beside a pod":   {volume: "released forged", stamp: "custom/7@d1", pod: "custom/7@d1", problem: waits},
		"made again":                     {volume: "released", stamp: "gone/7@d1", class: copied("p", "silver"), want: "custom"},
		"made again under another name":  {volume: "released", stamp: "custom/7@d1", class: copied("p", "Silver"), problem: `StorageClass "copy": parameters[flex-provisioner.io/config-from-class]: Invalid value: "Silver": is no name of a StorageClass; create the StorageClass again with the name of one that has a ConfigMap`},
		"made again by another":          {volume: "released", stamp: "custom/7@d1", class: copied("q", "gold"), want: "custom"},
	} {
		controller, _ := idle(t)
		for name, plugin := range map[string]string{"custom": "p", "others": "q"} {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"storage-class": map[string]string{"p": "silver", "q": "gold"}[plugin]}},
				Data: map[string]string{"plugin-name": plugin}}
			if err := controller.Cache.ConfigMaps.GetStore().Add(cm); err != nil {
				t.Fatal(err)
			}
		}

		controller.memory.setConfig("silver", &configmaps.Config{Name: "custom"}, "")
		controller.memory.setConfig("gold", &configmaps.Config{Name: "others"}, "")
		if c.own {
			controller.memory.setConfig("copy", &configmaps.Config{Name: "own"}, "")
		}

		s := &observed.Claim{UID: dispatchertest.UID, ClassName: "copy", Class: c.class, Provisioner: "p"}
		if c.volume != "" {
			volume := dispatchertest.Volume(c.volume)
			if c.stamp != "" {
				volume.Annotations[contract.AnnConfig] = c.stamp
			}

			s.SetVolume(volume)
		}

		if c.pod != "" {
			pod := dispatchertest.Pod("prov-0 failed", dispatchertest.Noon, dispatchertest.Noon)
			pod.Annotations[contract.AnnConfig] = c.pod
			s.Add(observed.NewAttempt(pod, ""))
		}

		controller.observeConfig(s)
		got := ""
		if s.Config != nil {
			got = s.Config.Name
		}

		if got != c.want || s.ConfigProblem != c.problem && got == "" {
			t.Errorf("%s: ConfigMap %q, %s\nwant %q, %s", name, got, s.ConfigProblem, c.want, c.problem)
		}
	}
}

func copied(provisioner, of string) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "copy"}, Provisioner: provisioner, Parameters: map[string]string{contract.ParameterConfigFromClass: of}}
}

// A pod that came and went which the cache never showed gives its slot back: no event of the cache does that.
func TestMissedPodKeepsNoSlot(t *testing.T) {
	controller, _ := idle(t)
	serve(t, controller, func(string) any { return nil })
	name := podspec.Name(contract.Provision, dispatchertest.UID, 0)
	if _, _, ok := controller.queue.Acquire("silver", dispatchertest.UID, name, 1, time.Now()); !ok {
		t.Fatal("there is no slot")
	}

	controller.memory.expectCreation(dispatchertest.UID, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "created"}})
	// The claim is gone, too.
	s := &observed.Claim{Now: dispatchertest.Noon, UID: dispatchertest.UID, ClassName: "silver", Provisioner: "p"}
	if _, err := controller.advance(t.Context(), s); err != nil || !s.PodMissed {
		t.Fatalf("pod missed: %t, %v", s.PodMissed, err)
	}

	if active, pods := controller.queue.Active("silver"), controller.queue.Pods()["silver"]; active != 0 || pods != 0 {
		t.Errorf("%d claims are known and %d slots taken, want none", active, pods)
	}
}

// The API server finds a claim's pods by their label. One whose name is another claim's is not its attempt, as in the cache.
func TestRelabelledPodIsNobodys(t *testing.T) {
	pod := dispatchertest.Pod("prov-0 failed", dispatchertest.Noon, dispatchertest.Noon)
	controller, _ := idle(t)
	serve(t, controller, func(string) any {
		return &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{*pod}}
	})
	s := &observed.Claim{Now: dispatchertest.Noon, UID: uidOf(1)}
	if err := controller.confirmPods(t.Context(), s); err != nil {
		t.Fatal(err)
	}

	for _, a := range s.All() {
		t.Errorf("claim %s has the attempt %s", s.UID, a.Pod.Name)
	}
}

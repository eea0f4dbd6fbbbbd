package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/archive"
)

// planted is in each password of the test.
const planted = "hunter2"

// lastApplied is what kubectl apply writes, with a whole object in it.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// plant puts a password into everything that may hold one.
func plant(w *world) {
	secret := func(what string) string { return what + "-" + planted }
	annotate := func(m *metav1.ObjectMeta) {
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[lastApplied] = `{"data": {"password": "` + secret("applied") + `"}}`
		m.Annotations["example.com/login"] = secret("annotation")
	}
	env := []corev1.EnvVar{{Name: "LOGIN", Value: secret("env")}, {Name: "PASSWORD", Value: secret("env-password")},
		{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "token"}}}}

	w.pod("prov-0 failed", 20)
	pod := w.more[len(w.more)-1].(*corev1.Pod)
	annotate(&pod.ObjectMeta)
	pod.Annotations[contract.AnnRequest] = strings.Replace(pod.Annotations[contract.AnnRequest], "west", secret("request"), 1)
	pod.Annotations[contract.AnnScript] = "mount -o password=" + secret("script")
	pod.Spec.Containers = []corev1.Container{{Name: "provisioner", Env: env, Args: []string{secret("argument")}, Command: []string{"sh", "-c", secret("command")}}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "x", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{VolumeAttributes: map[string]string{"a": secret("inline-csi")}}}}}
	says(pod, "cannot log in at https://admin:"+secret("url")+"@10.0.0.1/")

	w.config.Data["zone"], w.config.Data["backend-password"] = secret("zone"), secret("property")
	w.config.Data["service-token"] = secret("token")
	w.config.Data["provision"], w.config.Data["delete"] = "login "+secret("provision"), "login "+secret("delete")
	w.config.Data["pod-annotations"] = "example.com/login=" + secret("pod-annotation")
	w.config.BinaryData = map[string][]byte{"key": []byte(secret("binary"))}
	annotate(&w.config.ObjectMeta)
	unlabelled := w.config.DeepCopy()
	unlabelled.Name, unlabelled.Labels, unlabelled.Data = "tin", map[string]string{"storage-class": "tin"}, map[string]string{"pool": secret("unlabelled")}

	annotate(&w.class.ObjectMeta)
	w.class.Parameters = map[string]string{"pool": secret("parameter"), "adminPassword": secret("parameter-password")}
	w.class.MountOptions = []string{"vers=3.0", "password=" + secret("mount-option")}

	annotate(&w.claim.ObjectMeta)
	volume := w.volume("bound")
	volume.Name = "pvc-" + another
	annotate(&volume.ObjectMeta)
	volume.Annotations[contract.AnnIdentity], volume.Annotations[contract.AnnLocation] = secret("identity"), secret("location")
	volume.Spec.MountOptions = w.class.MountOptions
	volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeAttributes: map[string]string{"chapPassword": secret("csi")}},
		FlexVolume: &corev1.FlexPersistentVolumeSource{Options: map[string]string{"login": secret("flex-volume")}}}

	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: contract.ProvisionersNamespace, Name: "silver-1", Labels: w.config.Labels},
		Data: runtime.RawExtension{Raw: []byte(`{"zone": "` + secret("revision") + `"}`)}}
	annotate(&revision.ObjectMeta)

	annotate(&w.dispatch.ObjectMeta)
	annotate(&w.dispatch.Spec.Template.ObjectMeta)
	w.dispatch.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "dispatcher"}}
	w.dispatch.Spec.Template.Spec.Containers[0].Env = env
	dispatcher := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: contract.SystemNamespace, Name: "dispatcher-1", Labels: map[string]string{"app": "dispatcher"}},
		Spec: *w.dispatch.Spec.Template.Spec.DeepCopy()}
	annotate(&dispatcher.ObjectMeta)
	sidecar := corev1.Container{Name: "sidecar", Args: []string{"--login=" + secret("sidecar")},
		Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{secret("hook")}}}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: secret("probe")}}}}}}
	dispatcher.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debugger", Env: env, Args: []string{secret("debugger")}}}}
	dispatcher.Spec.Containers = append(dispatcher.Spec.Containers, sidecar)

	login := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: contract.ProvisionersNamespace, Name: "login"}, Data: map[string][]byte{"password": []byte(secret("secret"))}}
	key := login.DeepCopy()
	key.Namespace = contract.SystemNamespace
	w.more = append(w.more, unlabelled, revision, dispatcher, login, key)

	w.waits(true, events.ReasonPodRefused, "denied: Authorization: Bearer "+secret("condition"))
	w.tell("Pod", pod.Name, pod.UID, true, "FailedMount", "mount.cifs -o user=x,password="+secret("event")+",vers=3.0")
	w.tellClaim(true, "Quoted", "the server refuses "+secret("property")+" and "+secret("csi"))
}

// TestBundle: an archive has what support needs, and none of the passwords that are planted everywhere.
func TestBundle(t *testing.T) {
	w := newWorld(t)
	plant(w)
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	output, code := w.run("", "bundle", file)
	if want := file + " has 13 files. It has no Secret; look at it before you pass it on.\n"; code != 0 || output != want {
		t.Fatalf("exit code %d, printed %s, want %s", code, output, want)
	}

	files := archive.Files(t, file)
	want := []string{"check.txt", "configmaps.yaml", "controllerrevisions.yaml", "dispatcher.yaml", "events.yaml", "logs/dispatcher-1.txt",
		"persistentvolumeclaims.yaml", "persistentvolumes.yaml", "pods.yaml", "status.txt", "storageclasses.yaml", "version.txt", "why/" + uid + ".txt"}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		names = append(names, strings.TrimPrefix(name, "flex-bundle/"))
	}
	if !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
	for name, text := range files {
		for line := range strings.Lines(text) {
			if strings.Contains(line, planted) {
				t.Errorf("%s has a password: %s", name, line)
			}
		}
	}

	for name, wants := range map[string][]string{
		"dispatcher.yaml":             {"--flexctl-mount=image", "name: PASSWORD\n", "value: (redacted)\n", "key: token\n"},
		"configmaps.yaml":             {"image: registry.example/silver:v1\n", "zone: (redacted)\n", "silver.nfsExports: 10.0.0.1:/srv\n", "pool: (redacted)\n"},
		"storageclasses.yaml":         {"adminPassword: (redacted)\n", "vers=3.0\n", "password=(redacted)\n"},
		"persistentvolumeclaims.yaml": {"name: data\n", lastApplied + ": (redacted)\n", "volume.kubernetes.io/storage-provisioner: " + contract.ProvisionerName + "\n"},
		"persistentvolumes.yaml":      {"name: pvc-" + another + "\n", "chapPassword: (redacted)\n", "driver: csi.example.com\n"},
		"pods.yaml":                   {"name: prov-" + uid + "-0\n", "cannot log in at https://(redacted)@10.0.0.1/", contract.AnnClass + ": silver\n"},
		"events.yaml":                 {"mount.cifs -o user=x,password=(redacted),vers=3.0", "the server refuses (redacted) and (redacted)"},
		"controllerrevisions.yaml":    {"name: silver-1\n", "data: null\n"},
		"check.txt":                   {"Deployment flex-system/flex-provisioner: 1 of 1 replicas are ready\n"},
		"status.txt":                  {"team-a/data ", "Policies:    Ok\n"},
		"why/" + uid + ".txt":         {"Claim team-a/data, class silver\n"},
		"version.txt":                 {"dispatcher v0.1.0\n"},
		"logs/dispatcher-1.txt":       {"fake logs"},
	} {
		for _, want := range wants {
			if !strings.Contains(files["flex-bundle/"+name], want) {
				t.Errorf("%s lacks %q:\n%s", name, want, files["flex-bundle/"+name])
			}
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	for _, action := range w.client.Actions() {
		if action.GetResource().Resource == "secrets" {
			t.Errorf("a Secret was asked for: %v", action)
		}
	}
}

// TestBundlePartly: what may not be read is named, and the rest is written; never over another file.
func TestBundlePartly(t *testing.T) {
	w := newWorld(t)
	w.forbid("persistentvolumes", "deployments")
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	output, code := w.run("", "bundle", file)
	for _, want := range []string{"not in it: the dispatcher: deployments is forbidden: user tom cannot get it\n",
		"not in it: volumes: it takes the right to list persistentvolumes\n"} {
		if code != 0 || !strings.Contains(output, want) {
			t.Errorf("exit code %d, printed %s, want %s", code, output, want)
		}
	}
	if got := archive.Files(t, file)["flex-bundle/not-in-it.txt"]; !strings.Contains(got, "volumes: it takes the right to list persistentvolumes") {
		t.Errorf("not-in-it.txt has %q", got)
	}
	if output, code := w.run("", "bundle", file); code != exitFailed || !strings.Contains(output, "file exists") {
		t.Errorf("exit code %d, printed %s", code, output)
	}
}

func TestRedactedText(t *testing.T) {
	r := &redactor{}
	r.hide("backend-password", "open sesame")
	r.hide("zone", "west-1")
	r.hide("token", "short")
	for text, want := range map[string]string{
		"zone west-1 takes open sesame":     "zone west-1 takes (redacted)",
		"a short word":                      "a short word",
		`{"password":"a b","user":"x"}`:     `{"password":(redacted),"user":"x"}`,
		`say {\"password\": \"a b\"}`:       `say {\"password\": \(redacted)}`,
		"vers=3,password=(redacted),x":      "vers=3,password=(redacted),x",
		"node.session.auth.password = abc":  "node.session.auth.password = (redacted)",
		"access_token: abc, next":           "access_token: (redacted), next",
		"Authorization: Bearer abc.def-123": "Authorization: (redacted) (redacted)",
		"sent bearer abcdefghi":             "sent bearer (redacted)",
		"eyJhbGciOi.eyJzdWIi.c2ln":          "(redacted)",
		"iscsi://u:p@10.0.0.1:3260":         "iscsi://(redacted)@10.0.0.1:3260",
		`secret "pool" not found`:           `secret "pool" not found`,
		`volume "secret-0": secret "pool"`:  `volume "secret-0": secret "pool"`,
		"data[secrets]: pool":               "data[secrets]: pool",
		"nfs://10.0.0.1/srv":                "nfs://10.0.0.1/srv",
		"-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nx": "(redacted)\nx",
		"-----BEGIN PRIVATE KEY-----\nMII":                                       "(redacted)",
	} {
		if got := r.text(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// TestRedactKnowsKinds: an object of a kind that nobody thought of is never written as it is.
func TestRedactKnowsKinds(t *testing.T) {
	if _, err := new(redactor).object(&corev1.Secret{}); err == nil || err.Error() != "redact *v1.Secret: what it has is not known" {
		t.Errorf("%v", err)
	}
	if !configmaps.IsReserved("provision") || plainKey("provision") || plainKey("zone") || !plainKey("image") {
		t.Error("plainKey")
	}
}

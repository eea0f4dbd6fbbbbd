package cluster

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/conformance"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

const uid = "8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11"

func class() *storagev1.StorageClass {
	reclaim := corev1.PersistentVolumeReclaimDelete
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "silver"}, Provisioner: contract.ProvisionerName, ReclaimPolicy: &reclaim}
}

func configMap(name string, changes map[string]string) corev1.ConfigMap {
	data := map[string]string{"plugin-name": contract.ProvisionerName, "image": "example/x", "service-account-name": "silver"}
	for key, value := range changes {
		data[key] = value
	}
	return corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name,
		Labels: map[string]string{"type": "provisioner-config", "storage-class": "silver"}}, Data: data}
}

func TestConfigOf(t *testing.T) {
	other := configMap("gold", nil)
	other.Labels["storage-class"] = "gold"
	for name, c := range map[string]struct {
		all        []corev1.ConfigMap
		parameters map[string]string
		faults     []string
	}{
		"one":  {[]corev1.ConfigMap{other, configMap("a", map[string]string{"host-path": "/srv/x"})}, nil, nil},
		"none": {[]corev1.ConfigMap{other}, nil, []string{"there is no ConfigMap for class silver"}},
		"two":  {[]corev1.ConfigMap{configMap("a", nil), configMap("b", nil)}, nil, []string{"there are several ConfigMaps for class silver: a, b"}},
		"another name": {[]corev1.ConfigMap{configMap("a", map[string]string{"plugin-name": "example.com/x"})}, nil,
			[]string{`ConfigMap a has plugin-name "example.com/x", and the StorageClass the provisioner "flex-provisioner.io/dispatcher"`}},
		"a fault":          {[]corev1.ConfigMap{configMap("a", map[string]string{"timeout": "soon"})}, nil, []string{"ConfigMap a: data[timeout]: *"}},
		"of another class": {[]corev1.ConfigMap{other}, map[string]string{contract.ParameterConfigFromClass: "gold"}, nil},
		"of another class that has none": {[]corev1.ConfigMap{configMap("a", nil)}, map[string]string{contract.ParameterConfigFromClass: "gold"},
			[]string{"there is no ConfigMap for class gold"}},
		"of a class that can be none": {[]corev1.ConfigMap{configMap("a", nil)}, map[string]string{contract.ParameterConfigFromClass: "*"},
			[]string{"StorageClass silver: parameters[flex-provisioner.io/config-from-class]: *"}},
	} {
		class := class()
		class.Parameters = c.parameters
		config, faults := configOf(c.all, class)
		if !slices.EqualFunc(faults, c.faults, func(got, want string) bool {
			start, open := strings.CutSuffix(want, "*")
			return got == want || open && strings.HasPrefix(got, start)
		}) {
			t.Errorf("%s: faults %q, want %q", name, faults, c.faults)
		}
		if (config != nil) != (name == "one" || name == "another name" || name == "of another class") {
			t.Errorf("%s: config %+v", name, config)
		}
	}
}

// fitting is a claim of 1 GiB that is bound, and its volume.
func fitting() (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	silver := "silver"
	size := func() corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data", UID: uid},
		Spec:   corev1.PersistentVolumeClaimSpec{StorageClassName: &silver, AccessModes: modes, VolumeName: podspec.VolumeName(uid), Resources: corev1.VolumeResourceRequirements{Requests: size()}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: podspec.VolumeName(uid), Finalizers: []string{contract.VolumeFinalizer},
		Annotations: map[string]string{contract.ProvisionedBy: contract.ProvisionerName}},
		Spec: corev1.PersistentVolumeSpec{Capacity: size(), AccessModes: modes, StorageClassName: silver,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:                      &corev1.ObjectReference{Namespace: "team-a", Name: "data", UID: uid},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.0.0.1", Path: "/x"}}}}
	return claim, volume
}

func TestUnfit(t *testing.T) {
	event := func(of types.UID, reason string) []corev1.Event {
		return []corev1.Event{{InvolvedObject: corev1.ObjectReference{UID: of}, Reason: reason, Message: "volume x was mended"}}
	}
	for name, c := range map[string]struct {
		change func(*corev1.PersistentVolume)
		events []corev1.Event
		want   string
	}{
		"fits":                    {want: ""},
		"small, though bound":     {change: func(v *corev1.PersistentVolume) { v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("1Mi") }, want: "it has 1Mi, less than the 1Gi that the claim asks for"},
		"called otherwise":        {change: func(v *corev1.PersistentVolume) { v.Name = "mine" }, want: "it is called mine, not pvc-" + uid},
		"without finalizer":       {change: func(v *corev1.PersistentVolume) { v.Finalizers = nil }, want: "finalizer " + contract.VolumeFinalizer + " is missing"},
		"of another provisioner":  {change: func(v *corev1.PersistentVolume) { v.Annotations[contract.ProvisionedBy] = "me" }, want: "annotation " + contract.ProvisionedBy + ` is "me"`},
		"of another claim":        {change: func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "1" }, want: `spec.claimRef is team-a/data with UID "1", not team-a/data with UID "` + uid + `"`},
		"mended":                  {events: event(uid, "VolumeMended"), want: "volume x was mended"},
		"another claim's, mended": {events: event("1", "VolumeMended"), want: ""},
		"another event":           {events: event(uid, "ProvisioningSucceeded"), want: ""},
	} {
		claim, volume := fitting()
		if c.change != nil {
			c.change(volume)
		}
		if got := strings.Join(volumeFaults(claim, volume, class(), c.events), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// What the dispatcher builds has no privileges; each change of it is one.
func TestPrivileges(t *testing.T) {
	yes, no, root := true, false, int64(0)
	for name, c := range map[string]struct {
		change func(*corev1.Pod, *corev1.SecurityContext)
		config configmaps.Config
		want   string
	}{
		"as built":          {},
		"writable root":     {change: func(_ *corev1.Pod, c *corev1.SecurityContext) { c.ReadOnlyRootFilesystem = nil }, want: "provisioner can write to its root file system"},
		"root":              {change: func(p *corev1.Pod, _ *corev1.SecurityContext) { p.Spec.SecurityContext.RunAsUser = &root }, want: "provisioner runs as root"},
		"the image's user":  {change: func(p *corev1.Pod, _ *corev1.SecurityContext) { p.Spec.SecurityContext = nil }, want: "provisioner runs as root"},
		"root, as it says":  {change: func(p *corev1.Pod, _ *corev1.SecurityContext) { p.Spec.SecurityContext.RunAsUser = &root }, config: configmaps.Config{RunAsUser: &root}},
		"privileged":        {change: func(_ *corev1.Pod, c *corev1.SecurityContext) { c.Privileged = &yes }, want: "provisioner is privileged"},
		"escalation":        {change: func(_ *corev1.Pod, c *corev1.SecurityContext) { c.AllowPrivilegeEscalation = nil }, want: "provisioner may gain privileges"},
		"capabilities":      {change: func(_ *corev1.Pod, c *corev1.SecurityContext) { c.Capabilities = nil }, want: "provisioner keeps capabilities"},
		"no context at all": {change: func(p *corev1.Pod, _ *corev1.SecurityContext) { p.Spec.Containers[0].SecurityContext = nil }, want: "provisioner has no securityContext"},
		"privileged, as it says": {change: func(_ *corev1.Pod, c *corev1.SecurityContext) {
			c.Privileged, c.AllowPrivilegeEscalation, c.Capabilities = &yes, nil, nil
		}, config: configmaps.Config{Privileged: true}},
		"the cluster's user": {change: func(p *corev1.Pod, _ *corev1.SecurityContext) { p.Spec.SecurityContext.RunAsUser = nil }},
		"not privileged":     {change: func(_ *corev1.Pod, c *corev1.SecurityContext) { c.Privileged = &no }},
	} {
		cm := configMap("a", nil)
		config, errs := configmaps.Parse(&cm)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		pod, err := podspec.Build(podspec.Attempt{Config: config, Request: contract.Request{Operation: contract.Delete, VolumeName: "pvc-" + uid,
			Claim: contract.Claim{UID: uid}}}, podspec.Cluster{Namespace: "flex-provisioners"})
		if err != nil {
			t.Fatal(err)
		}
		if c.change != nil {
			c.change(pod, pod.Spec.Containers[0].SecurityContext)
		}
		if got := strings.Join(privileges(pod, &c.config), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestShown(t *testing.T) {
	texts := map[string]string{"a log": "hello", "an event": "the password is hunter2hunter2", "a volume": "aHVudGVyMmh1bnRlcjI="}
	if got := strings.Join(showingSecrets(texts, []string{"correct horse", "hunter2hunter2"}), ", "); got != "a volume, an event" {
		t.Errorf("shown in %q", got)
	}
}

func TestLearn(t *testing.T) {
	tr := &trial{stage: &stage{}}
	tr.learn(&corev1.Secret{Data: map[string][]byte{
		"OS_REGION_NAME": []byte("RegionOne"), "OS_PASSWORD": []byte("first=secret"), "login": []byte("second-secret\n"),
		"cloud.conf": []byte("[Global]\nauth-url = https://keystone.example\npassword = third-secret\n"), "pin": []byte("1234"),
	}})
	slices.Sort(tr.secrets)
	if got := strings.Join(tr.secrets, ", "); got != "[Global], first=secret, second-secret, third-secret" {
		t.Errorf("learned %s", got)
	}
	if got := tr.redact("it said third-secret"); got != "it said [secret]" {
		t.Errorf("redacted: %s", got)
	}
}

func TestLastWarning(t *testing.T) {
	at := func(second int64, kind, reason string) corev1.Event {
		return corev1.Event{Type: kind, Reason: reason, Message: "m", LastTimestamp: metav1.NewTime(time.Unix(second, 0)),
			InvolvedObject: corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: "data"}}
	}
	late := at(0, corev1.EventTypeWarning, "ByEventTime")
	late.LastTimestamp, late.EventTime = metav1.Time{}, metav1.NewMicroTime(time.Unix(9, 0))
	for name, c := range map[string]struct {
		events []corev1.Event
		want   string
	}{
		"none":        {nil, ""},
		"only normal": {[]corev1.Event{at(1, corev1.EventTypeNormal, "Fine")}, ""},
		"the later":   {[]corev1.Event{at(3, corev1.EventTypeWarning, "Later"), at(2, corev1.EventTypeWarning, "Sooner"), at(4, corev1.EventTypeNormal, "Fine")}, "; the last warning on PersistentVolumeClaim data is Later: m"},
		"by time":     {[]corev1.Event{late, at(3, corev1.EventTypeWarning, "Later")}, "; the last warning on PersistentVolumeClaim data is ByEventTime: m"},
	} {
		if got := lastWarning(c.events); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestStorage(t *testing.T) {
	_, a := fitting()
	_, b := fitting()
	if !shared(a, b) {
		t.Error("the same export is not shared")
	}
	if b.Spec.NFS.Path = "/y"; shared(a, b) {
		t.Error("two exports are shared")
	}
	if onDevice(a) {
		t.Error("nfs is no device")
	}
	a.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{}}
	if !onDevice(a) {
		t.Error("a file system on iSCSI is on a device")
	}
	block := corev1.PersistentVolumeBlock
	if a.Spec.VolumeMode = &block; onDevice(a) {
		t.Error("a raw device has no file system")
	}
}

func TestAccessMode(t *testing.T) {
	for modes, want := range map[string]corev1.PersistentVolumeAccessMode{
		"ReadOnlyMany,ReadWriteMany": corev1.ReadWriteMany, "ReadWriteOncePod": corev1.ReadWriteOncePod, "ReadOnlyMany": corev1.ReadWriteOnce,
	} {
		cm := configMap("a", map[string]string{"access-modes": modes})
		config, errs := configmaps.Parse(&cm)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		if got := accessMode(config); got != want {
			t.Errorf("of %s: %s, want %s", modes, got, want)
		}
	}
	if got := accessMode(nil); got != corev1.ReadWriteOnce {
		t.Errorf("of nothing: %s", got)
	}
}

// A raw device is for root; everything else has no privileges.
func TestConsumerPod(t *testing.T) {
	claim, _ := fitting()
	pod := consumerPod(claim, "conformance-a-", "example/shell", "true")
	if faults := privileges(pod, &configmaps.Config{}); len(faults) > 0 {
		t.Errorf("file system: %q", faults)
	}
	if mounts := pod.Spec.Containers[0].VolumeMounts; len(mounts) != 1 || mounts[0].MountPath != "/data" {
		t.Errorf("file system: mounts %+v", mounts)
	}
	block := corev1.PersistentVolumeBlock
	claim.Spec.VolumeMode = &block
	pod = consumerPod(claim, "conformance-a-", "example/shell", "true")
	if faults := strings.Join(privileges(pod, &configmaps.Config{}), ", "); faults != "consumer runs as root" {
		t.Errorf("raw device: %s", faults)
	}
	if c := pod.Spec.Containers[0]; len(c.VolumeMounts) != 0 || len(c.VolumeDevices) != 1 || c.VolumeDevices[0].DevicePath != "/dev/data" {
		t.Errorf("raw device: %+v", c)
	}
}

// A check that ends without a judgement does not hide what was found, and what stops it is an error.
func TestProtect(t *testing.T) {
	boom := errors.New("boom")
	tr := &trial{stage: &stage{}}
	if err := tr.protect(func() { tr.end(conformance.Skipped, "not checked: x") }); err != nil || tr.status != conformance.Skipped {
		t.Errorf("ended with %v, status %s", err, tr.status)
	}
	if err := tr.protect(func() { tr.must(boom) }); !errors.Is(err, boom) {
		t.Errorf("ended with %v, want boom", err)
	}
}

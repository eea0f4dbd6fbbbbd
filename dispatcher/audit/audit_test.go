package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

const (
	uid  = "11111111-2222-3333-4444-555555555555"
	name = "pvc-" + uid
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.Time{Time: noon.Add(-d)} }

func claim(volume string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data", UID: uid},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volume}}
}

// volume in words: bound, released; long or lately (since when); retain, foreign, bare, elsewhere, injecting,
// unclaimed, young; gold or retained (of class silver-retain).
func volume(words string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:              name,
			CreationTimestamp: ago(3 * time.Hour),
			Finalizers:        []string{contract.VolumeFinalizer},
			Annotations: map[string]string{
				contract.ProvisionedBy: "p",
				contract.AnnIdentity:   `{"properties":{"zone":"west"},"parameters":{"pool":"a"}}`,
			},
		},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              "silver",
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:                      &corev1.ObjectReference{Namespace: "team-a", Name: "data", UID: uid},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
	for _, word := range strings.Fields(words) {
		switch word {
		case "bound":
		case "released":
			v.Status.Phase = corev1.VolumeReleased
		case "long":
			at := ago(2 * time.Hour)
			v.Status.LastPhaseTransitionTime = &at
		case "lately":
			at := ago(2 * time.Minute)
			v.Status.LastPhaseTransitionTime = &at
		case "young":
			v.CreationTimestamp = ago(2 * time.Minute)
		case "retain":
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		case "foreign":
			v.Annotations[contract.ProvisionedBy] = "other"
		case "failed":
			v.Status.Phase = corev1.VolumeFailed
		case "unmarked":
			v.Annotations = nil
		case "bare":
			v.Finalizers = nil
		case "elsewhere":
			v.Annotations[contract.AnnIdentity] = `{"properties":{"zone":"east"},"parameters":{"pool":"a"}}`
		case "injecting":
			v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name = "x; rm -rf / #", "$(reboot)\x1b[2J\n"
		case "gold":
			v.Spec.StorageClassName = "gold"
		case "retained":
			v.Spec.StorageClassName = "silver-retain"
		case "unclaimed":
			v.Spec.ClaimRef = nil
		default:
			panic("no such word: " + word)
		}
	}

	return v
}

// pod in words: failed, refused, done or running; long or lately; kept (without finalizer); delete or list, else
// provision.
func pod(words string) *corev1.Pod {
	has := func(word string) bool { return strings.Contains(" "+words+" ", " "+word+" ") }
	operation := contract.Provision
	if has("delete") {
		operation = contract.Delete
	}

	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:  "ns",
			Name:       podspec.Name(operation, uid, 0),
			Finalizers: []string{contract.PodFinalizer},
			Labels:     map[string]string{contract.LabelClaimUID: uid, contract.LabelOperation: string(operation)},
		},
	}
	p.Spec.NodeName = "node1"
	if has("list") {
		p.Name, p.Labels, p.Finalizers = "list-abc", map[string]string{
			contract.LabelOperation: string(contract.List),
		}, nil
	}

	if has("kept") {
		p.Finalizers = nil
	}

	ended := ago(2 * time.Minute)
	if has("long") {
		ended = ago(2 * time.Hour)
	}

	end := &corev1.ContainerStateTerminated{FinishedAt: ended}
	switch {
	case has("running"):
		p.Status.Phase = corev1.PodRunning
		return p
	case has("done"):
		p.Status.Phase = corev1.PodSucceeded
	case has("refused"):
		p.Status.Phase, end.ExitCode = corev1.PodFailed, contract.ExitRefused
	default:
		p.Status.Phase, end.ExitCode = corev1.PodFailed, 1
	}

	p.Status.ContainerStatuses = []corev1.ContainerStatus{
		{Name: podspec.ContainerName, State: corev1.ContainerState{Terminated: end}},
	}

	return p
}

func secret(age time.Duration) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         "chap",
			Name:              name,
			CreationTimestamp: ago(age),
			Labels:            map[string]string{contract.LabelClaimUID: uid},
		},
	}
}

func listing(lines string) Listing {
	return Listing{
		Config:  &configmaps.Config{Properties: map[string]string{"zone": "west"}},
		Classes: []string{"silver", "silver-retain"},
		Parameters: map[string]string{
			"pool": "a",
		},
		Began:    noon.Add(-time.Minute),
		Storage:  ParseListing(lines),
		Complete: true,
	}
}

// Of storage on nodes that were not asked nothing is known: they may be cordoned, or lost for a while.
func TestCompareOnNodes(t *testing.T) {
	node := func(name, hostname string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: hostname}}}
	}
	on := func(values ...string) *corev1.VolumeNodeAffinity {
		return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: values}}}}}}
	}
	for _, c := range []struct {
		name     string
		affinity *corev1.VolumeNodeAffinity
		empty    bool
	}{
		{"on a node that was asked", on("host1"), true},
		{"on a node that was not asked", on("host2"), false},
		{"on no node that its affinity names", nil, false},
	} {
		v, local := volume("unclaimed"), listing("")
		v.Spec.NodeAffinity = c.affinity
		local.Config = &configmaps.Config{Properties: local.Config.Properties, NodeLocal: true}
		local.Nodes = []*corev1.Node{node("node1", "host1")}
		found := Compare(State{Now: noon, Provisioner: "p", Objects: Objects{Volumes: []*corev1.PersistentVolume{v}}, Listings: []Listing{local}})
		if empty := len(found) == 1 && found[0].Kind == Empty; empty != c.empty {
			t.Errorf("%s: found %v, want the volume to be empty: %t", c.name, found, c.empty)
		}
	}
}

func TestCompare(t *testing.T) {
	const there = "storage " + name + " rm -rf /srv/x"
	claims := func(c ...*corev1.PersistentVolumeClaim) []*corev1.PersistentVolumeClaim { return c }
	volumes := func(v ...*corev1.PersistentVolume) []*corev1.PersistentVolume { return v }
	pods := func(p ...*corev1.Pod) []*corev1.Pod { return p }
	for _, c := range []struct {
		name  string
		state State
		want  []string // kind name: command
	}{
		{name: "nothing"},
		{name: "all is well", state: State{Objects: Objects{Claims: claims(claim(name)), Volumes: volumes(volume("bound")), Secrets: []*corev1.Secret{secret(2 * time.Hour)}},
			Listings: []Listing{listing(there)}}},

		{name: "storage without anything", state: State{Listings: []Listing{listing(there)}}, want: []string{"storage " + name + ": # the image says: rm -rf /srv/x"}},
		{name: "storage whose provisioner gives no command", state: State{Listings: []Listing{listing("storage " + name)}},
			want: []string{"storage " + name + ": # by the means of the storage itself"}},
		{name: "storage of a foreign name", state: State{Listings: []Listing{listing("storage lost+found")}},
			want: []string{`storage "lost+found": # by the means of the storage itself`}},
		{name: "storage that two classes list", state: State{Listings: []Listing{listing(there), listing(there)}}, want: []string{"storage " + name + ": # the image says: rm -rf /srv/x"}},
		{name: "storage of a claim that waits", state: State{Objects: Objects{Claims: claims(claim(""))}, Listings: []Listing{listing(there)}}},
		{name: "storage of a pod that runs", state: State{Objects: Objects{Pods: pods(pod("running"))}, Listings: []Listing{listing(there)}}},
		{name: "storage of a retained volume", state: State{Objects: Objects{Volumes: volumes(volume("released retain long"))}, Listings: []Listing{listing(there)}}},
		{name: "storage of a volume of another provisioner", state: State{Objects: Objects{Volumes: volumes(volume("foreign"))}, Listings: []Listing{listing(there)}}},
		{name: "storage that was removed meanwhile", state: State{Before: Objects{Volumes: volumes(volume("released"))}, Listings: []Listing{listing(there)}}},

		{name: "volume without storage", state: State{Objects: Objects{Claims: claims(claim(name)), Volumes: volumes(volume("bound"))}, Listings: []Listing{listing("")}},
			want: []string{"empty-volume " + name + ": kubectl -n team-a delete pvc data"}},
		{name: "volume without storage that says it is another claim's", state: State{Objects: Objects{Claims: claims(claim("pvc-another")), Volumes: volumes(volume("bound"))}, Listings: []Listing{listing("")}},
			want: []string{"empty-volume " + name + ": kubectl delete pv " + name}},
		{name: "volume without storage that gives a command as its claim", state: State{Objects: Objects{Volumes: volumes(volume("injecting"))}, Listings: []Listing{listing("")}},
			want: []string{"empty-volume " + name + ": kubectl delete pv " + name}},
		{name: "volume without storage and claim", state: State{Objects: Objects{Volumes: volumes(volume("unclaimed"))}, Listings: []Listing{listing("")}},
			want: []string{"empty-volume " + name + ": kubectl delete pv " + name}},
		{name: "volume whose class was not listed", state: State{Objects: Objects{Volumes: volumes(volume("bound"))}}},
		{name: "volume made after the listing", state: State{Objects: Objects{Volumes: volumes(volume("young"))},
			Listings: []Listing{{Config: listing("").Config, Classes: listing("").Classes, Parameters: listing("").Parameters, Began: noon.Add(-3 * time.Minute), Complete: true}}}},
		{name: "volume that may be on a node that was not asked", state: State{Objects: Objects{Volumes: volumes(volume("bound"))},
			Listings: []Listing{{Config: listing("").Config, Classes: listing("").Classes, Parameters: listing("").Parameters, Began: noon}}}},
		{name: "volume without storage of a class with the same ConfigMap", state: State{Objects: Objects{Volumes: volumes(volume("retained unclaimed"))}, Listings: []Listing{listing("")}},
			want: []string{"empty-volume " + name + ": kubectl delete pv " + name}},
		{name: "volume of a class that was not listed", state: State{Objects: Objects{Volumes: volumes(volume("gold unclaimed"))}, Listings: []Listing{listing("")}}},
		{name: "volume made by other properties", state: State{Objects: Objects{Volumes: volumes(volume("elsewhere"))}, Listings: []Listing{listing("")}}},
		{name: "volume whose storage is being removed", state: State{Objects: Objects{Volumes: volumes(volume("released lately"))}, Listings: []Listing{listing("")}}},

		{name: "released long ago", state: State{Objects: Objects{Volumes: volumes(volume("released long"))}},
			want: []string{"released-volume " + name + ": kubectl annotate pv " + name + " flex-provisioner.io/allow-delete=true"}},
		{name: "released lately", state: State{Objects: Objects{Volumes: volumes(volume("released lately"))}}},
		{name: "retained", state: State{Objects: Objects{Volumes: volumes(volume("released retain long"))}}},
		{name: "released volume of another provisioner", state: State{Objects: Objects{Volumes: volumes(volume("released foreign long"))}}},
		{name: "without finalizer", state: State{Objects: Objects{Volumes: volumes(volume("bare"))}},
			want: []string{"unprotected-volume " + name + `: kubectl patch pv ` + name + ` -p '{"metadata": {"finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"]}}'`}},
		{name: "without finalizer yet", state: State{Objects: Objects{Volumes: volumes(volume("bare young"))}}},
		{name: "retained, which the library takes the finalizer off", state: State{Objects: Objects{Volumes: volumes(volume("bare retain"))}}},

		{name: "released volume that says nothing", state: State{Objects: Objects{Classes: []string{"silver"}, Volumes: volumes(volume("released unmarked"))}},
			want: []string{"unrecorded-volume " + name + ": kubectl flex release " + name}},
		{name: "bound volume that says nothing", state: State{Objects: Objects{Classes: []string{"silver"}, Volumes: volumes(volume("bound unmarked"))}},
			want: []string{"unrecorded-volume " + name + ": kubectl flex adopt " + name + " --class silver --yes"}},
		{name: "volume of another class that says nothing", state: State{Objects: Objects{Classes: []string{"gold"}, Volumes: volumes(volume("bound unmarked"))}}},
		{name: "retained volume that says nothing", state: State{Objects: Objects{Classes: []string{"silver"}, Volumes: volumes(volume("bound unmarked retain"))}}},
		{name: "volume that says nothing yet", state: State{Objects: Objects{Classes: []string{"silver"}, Volumes: volumes(volume("bound unmarked young"))}}},
		{name: "volume that Kubernetes marked Failed long ago", state: State{Objects: Objects{Volumes: volumes(volume("failed long"))}},
			want: []string{"released-volume " + name + ": kubectl annotate pv " + name + " flex-provisioner.io/allow-delete=true"}},

		{name: "failed pod of a claim that is gone", state: State{Objects: Objects{Pods: pods(pod("failed long"))}},
			want: []string{"pod ns/prov-" + uid + `-0: kubectl -n ns patch pod prov-` + uid + `-0 -p '{"metadata": {"$deleteFromPrimitiveList/finalizers": ["flex-provisioner.io/outcome-recorded"]}}' && kubectl -n ns delete pod prov-` + uid + "-0"}},
		{name: "failed pod of a claim that is gone since a moment", state: State{Objects: Objects{Pods: pods(pod("failed lately"))}}},
		{name: "failed pod of a claim that waits", state: State{Objects: Objects{Claims: claims(claim("")), Pods: pods(pod("failed long"))}}},
		{name: "failed delete of a volume", state: State{Objects: Objects{Volumes: volumes(volume("released lately")), Pods: pods(pod("delete failed long"))}}},
		{name: "pod kept for its log", state: State{Objects: Objects{Pods: pods(pod("failed long kept"))}}},
		{name: "pod that runs", state: State{Objects: Objects{Pods: pods(pod("running"))}}},
		{name: "pod of an audit that was killed", state: State{Objects: Objects{Pods: pods(pod("list done long"))}}, want: []string{"pod ns/list-abc: kubectl -n ns delete pod list-abc"}},
		{name: "pod of an audit that goes on", state: State{Objects: Objects{Pods: pods(pod("list done lately"))}}},

		{name: "secret without anything", state: State{Objects: Objects{Secrets: []*corev1.Secret{secret(2 * time.Hour)}}}, want: []string{"secret chap/" + name + ": kubectl -n chap delete secret " + name}},
		{name: "secret of a volume that is being made", state: State{Objects: Objects{Secrets: []*corev1.Secret{secret(time.Minute)}}}},
		{name: "secret of a claim that waits", state: State{Objects: Objects{Claims: claims(claim("")), Secrets: []*corev1.Secret{secret(2 * time.Hour)}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.state.Now, c.state.Provisioner = noon, "p"
			var got []string
			for _, f := range Compare(c.state) {
				got = append(got, fmt.Sprintf("%s %s: %s", f.Kind, f.Name, f.Command))
				if f.Why == "" || f.About == nil != (f.Kind == Storage) {
					t.Errorf("%s %s: why %q, about %v", f.Kind, f.Name, f.Why, f.About)
				}
			}

			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("found\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}

// TestOrder: findings come by kind and name, whatever the order of the objects.
func TestOrder(t *testing.T) {
	b, a := volume("bare"), volume("bare released long")
	a.Name, b.Name = "pvc-a", "pvc-b"
	orphan := secret(2 * time.Hour)
	orphan.Labels[contract.LabelClaimUID] = "another"
	s := State{
		Now:         noon,
		Provisioner: "p",
		Objects:     Objects{Volumes: []*corev1.PersistentVolume{b, a}, Secrets: []*corev1.Secret{orphan}},
		Listings:    []Listing{listing("storage y\nstorage x\n")},
	}
	var got []string
	for _, f := range Compare(s) {
		got = append(got, string(f.Kind)+" "+f.Name)
	}

	want := "storage x, storage y, secret chap/" + name + ", released-volume pvc-a, unprotected-volume pvc-a, unprotected-volume pvc-b, empty-volume pvc-b"
	if strings.Join(got, ", ") != want {
		t.Errorf("found %s, want %s", strings.Join(got, ", "), want)
	}
}

func TestParseListing(t *testing.T) {
	log := "time=12:00 level=INFO msg=\"storage x\"\nstorage pvc-a  ssh node1 rm -rf /srv/pvc-a \nstorage pvc-b\nstorage \nstoragepvc-c\n storage pvc-d\nstorage pvc-e"
	want := map[string]contract.Storage{
		"pvc-a": {
			Name:   "pvc-a",
			Remove: "ssh node1 rm -rf /srv/pvc-a",
		},
		"pvc-b": {Name: "pvc-b"},
		"pvc-e": {Name: "pvc-e"},
	}
	got := ParseListing(log)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}

	again := ParseListing(want["pvc-a"].Line() + "\n" + want["pvc-b"].Line())
	if fmt.Sprint(again["pvc-a"], again["pvc-b"]) != fmt.Sprint(want["pvc-a"], want["pvc-b"]) {
		t.Errorf("%v does not come back: %v", want, again)
	}
}

// TestMadeElsewhere: storage that a class does not list is missing only if the class mounts what the volume was made
// in. The advice is to delete the claim.
func TestMadeElsewhere(t *testing.T) {
	exported := func(path string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
		return &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "exports", UID: "e"},
				Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "exports"},
				Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
			},
			&corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "exports"},
				Spec: corev1.PersistentVolumeSpec{
					ClaimRef: &corev1.ObjectReference{UID: "e"},
					PersistentVolumeSource: corev1.PersistentVolumeSource{
						NFS: &corev1.NFSVolumeSource{Server: "nas", Path: path},
					},
				},
			}
	}
	const recorded = `[{"claim":"exports","source":"nfs://nas/e1","path":"/export"},{"path":"/srv"}]`
	for name, c := range map[string]struct {
		mounts, export string
		change         func(*configmaps.Config)
		empty          bool
	}{
		"in the same place":            {recorded, "/e1", func(*configmaps.Config) {}, true},
		"of before":                    {"", "/e2", func(*configmaps.Config) {}, true},
		"in what was replaced":         {recorded, "/e2", func(*configmaps.Config) {}, false},
		"in another claim":             {recorded, "/e1", func(c *configmaps.Config) { c.MountClaims[0].Claim = "two" }, false},
		"in another directory":         {recorded, "/e1", func(c *configmaps.Config) { c.HostPaths[0].Path = "/mnt" }, false},
		"in what cannot be understood": {"{", "/e1", func(*configmaps.Config) {}, false},
	} {
		mountClaim, export := exported(c.export)
		v, l := volume("bound"), listing("")
		config := *l.Config
		config.Namespace, config.MountClaims, config.HostPaths = "ns", []configmaps.ClaimMount{
			{Claim: "exports", Path: "/export"},
		}, []configmaps.HostPath{
			{Path: "/srv"},
		}
		c.change(&config)
		if l.Config = &config; c.mounts != "" {
			v.Annotations[contract.AnnMounts] = c.mounts
		}

		s := State{
			Now:         noon,
			Provisioner: "p",
			Listings:    []Listing{l},
			Objects: Objects{
				Claims:  []*corev1.PersistentVolumeClaim{claim(name), mountClaim},
				Volumes: []*corev1.PersistentVolume{v, export},
			},
		}
		if found := Compare(s); (len(found) > 0) != c.empty {
			t.Errorf("%s: %v", name, found)
		}

		if unplaced := s.Unplaced(); (unplaced == 1) != (c.mounts == "") {
			t.Errorf("%s: %d volumes without a place", name, unplaced)
		}
	}
}

// TestRecords: the record of a pod that is gone is a finding as the pod would be. One that counts for nothing is, whatever it says.
func TestRecords(t *testing.T) {
	record := func(words string, change func(*appsv1.ControllerRevision)) *appsv1.ControllerRevision {
		ended := pod(words)
		ended.UID = "ended"
		saved, err := podspec.SavePod(ended, noon)
		if err != nil {
			t.Fatal(err)
		}

		saved.CreationTimestamp = metav1.Time{Time: noon}
		if change != nil {
			change(saved)
		}

		if err := podspec.DecodeSaved(saved); (err != nil) != (change != nil) {
			t.Fatal(err)
		}

		return saved
	}
	copied := func(r *appsv1.ControllerRevision) { r.CreationTimestamp = metav1.Time{Time: noon.Add(time.Hour)} }
	const command = `: kubectl -n ns patch controllerrevision prov-` + uid + `-0 -p '{"metadata": {"$deleteFromPrimitiveList/finalizers": ["flex-provisioner.io/outcome-recorded"]}}'` +
		" && kubectl -n ns delete controllerrevision prov-" + uid + "-0"
	for _, c := range []struct {
		name   string
		record *appsv1.ControllerRevision
		also   Objects
		want   string
	}{
		{name: "of an attempt whose claim is gone", record: record("failed long", nil),
			want: "its claim is gone, and what it may have made has not been removed; its events say why (the pod is gone, and its record stays)" + command},
		{name: "of one that made nothing", record: record("refused long", nil),
			want: "it ended more than an hour ago, and nobody waits for it (the pod is gone, and its record stays)" + command},
		{name: "of a moment ago", record: record("failed lately", nil)},
		{name: "of a claim that waits", record: record("failed long", nil), also: Objects{Claims: []*corev1.PersistentVolumeClaim{claim("")}}},
		{name: "restored from a backup", record: record("failed lately", copied), want: "its record counts for nothing: it was restored from a backup, or is none" + command},
	} {
		c.also.Saved = []*appsv1.ControllerRevision{c.record}
		var got []string
		for _, f := range Compare(State{Now: noon, Provisioner: "p", Objects: c.also}) {
			got = append(got, f.Why+": "+f.Command)
		}

		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

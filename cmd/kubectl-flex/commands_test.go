package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clienttesting "k8s.io/client-go/testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/golden"
)

// TestCommands: what other commands print, and their exit codes.
func TestCommands(t *testing.T) {
	for name, c := range map[string]struct {
		scene func(w *world)
		args  []string
		input string
		code  int
	}{
		"validate-files":     {args: []string{"validate", "-f", "testdata/files/faulty.yaml"}, code: 4},
		"validate-offline":   {args: []string{"validate", "-f", "testdata/files/faulty.yaml", "--offline"}, code: 4},
		"validate-twice":     {args: []string{"validate", "-f", "testdata/files/twice.yaml", "--offline"}, code: 4},
		"validate-json":      {args: []string{"validate", "-f", "testdata/files/twice.yaml", "--offline", "-o", "json"}, code: 4},
		"validate-class":     {args: []string{"validate", "silver"}},
		"validate-waits":     {scene: func(w *world) { w.class.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer) }, args: []string{"validate", "silver"}},
		"validate-no-class":  {args: []string{"validate", "tin"}, code: 5},
		"validate-typo":      {args: []string{"validate", "silvr"}, code: 5},
		"validate-kind":      {args: []string{"validate", "storageclass.storage.k8s.io/silver"}},
		"validate-configmap": {args: []string{"validate", "configmap/silver"}},
		"validate-misnamed": {scene: func(w *world) { w.config.Data["plugin-name"] = "flex-provisioner.io/dispatch" },
			args: []string{"validate", "silver"}, code: 4},
		"validate-nodes-unread": {scene: func(w *world) { zoned(w); w.forbid("nodes") }, args: []string{"validate", "-f", "testdata/files/zoned.yaml"}},
		"validate-no-node":      {scene: func(w *world) { zoned(w) }, args: []string{"validate", "silver"}, code: 4},
		"validate-no-configmap": {args: []string{"validate", "cm/sliver"}, code: 5},
		"validate-no-account":   {scene: func(w *world) { w.account.Name = "other" }, args: []string{"validate", "silver"}, code: 4},
		"validate-unbound":      {scene: func(w *world) { w.unbound = true }, args: []string{"validate", "silver"}, code: 4},
		"validate-further":      {scene: furtherClass, args: []string{"validate", "gold"}, code: 4},
		"validate-nothing":      {args: []string{"validate"}, code: 2},
		"validate-stdin-empty":  {args: []string{"validate", "-f", "-", "--offline"}, input: "# nothing\n---\n", code: 4},
		"validate-elsewhere":    {args: []string{"validate", "-f", "testdata/files/elsewhere.yaml"}, code: 4},
		"validate-no-object":    {args: []string{"validate", "-f", "-", "--offline"}, input: "- a\n", code: 4},
		"validate-misspelled":   {args: []string{"validate", "-f", "testdata/files/misspelled.yaml"}, code: 4},
		"validate-list":         {args: []string{"validate", "-f", "testdata/files/list.yaml", "--offline"}, code: 4},
		"validate-json-file":    {args: []string{"validate", "-f", "testdata/files/directory", "--offline"}, code: 4},
		"validate-no-manifest":  {args: []string{"validate", "-f", "../kubectl-flex", "--offline"}, code: 1},
		"render-nothing":        {args: []string{"render", "silver", "-f", "testdata/files/misspelled.yaml"}, code: 4},
		"render-class":          {args: []string{"render", "silver"}},
		"render-claim":          {args: []string{"render", "silver", "--claim", "testdata/files/claim.yaml"}},
		"render-edited":         {args: []string{"render", "silver", "-f", "testdata/files/edited.yaml"}},
		"render-refused":        {scene: func(w *world) { w.config.Data["claim-sizes"] = "1Gi-2Gi" }, args: []string{"render", "silver", "--claim", "testdata/files/claim.yaml"}, code: 4},
		"render-no-class":       {args: []string{"render", "tin"}, code: 5},
		"retry-running":         {scene: func(w *world) { w.pod("prov-0 running", 20) }, args: []string{"retry", "data"}, code: 1},
		"retry-asked":           {scene: func(w *world) { w.pod("prov-9 failed retry", 20) }, args: []string{"retry", "data"}, code: 1},
		"retry-bound":           {scene: func(w *world) { w.bound() }, args: []string{"retry", "data"}, code: 1},
		"retry-no-config":       {scene: func(w *world) { w.pod("prov-0 failed", 20); w.config = nil }, args: []string{"retry", "data"}, code: 1},
		"retry-tenant":          {scene: func(w *world) { w.tenant = true }, args: []string{"retry", "data"}, code: 1},
		"logs-no-pod":           {args: []string{"logs", "data"}, code: 1},
		"logs-attempt":          {scene: twoPods, args: []string{"logs", "data", "--attempt", "0"}},
		"logs-newest":           {scene: twoPods, args: []string{"logs", "data"}},
		"logs-gone":             {scene: twoPods, args: []string{"logs", "data", "--attempt", "1"}, code: 1},
		"logs-tenant":           {scene: func(w *world) { w.tenant = true }, args: []string{"logs", "data"}, code: 1},
		"stop-deletes-shown":    {args: []string{"stop-deletes"}},
		"stop-deletes-why":      {args: []string{"stop-deletes", "on"}, code: 2},
		"stop-deletes-what":     {args: []string{"stop-deletes", "maybe"}, code: 2},
		"release-bound":         {scene: func(w *world) { w.bound() }, args: []string{"release", "pvc-" + uid}, code: 1},
		"release-no-volume":     {args: []string{"release", "pvc-1"}, code: 1},
		"release-forged":        {scene: func(w *world) { w.claim = nil; w.volume("released forged") }, args: []string{"release", "pvc-" + uid}, code: 1},
		"release-lost-record":   {scene: lostAndFailed, args: []string{"release", "pvc-" + uid}, input: "pvc-" + uid + "\nyes\n"},
		"release-not-sure":      {scene: held, args: []string{"release", "pvc-" + uid}, input: "pvc-" + uid + "\nno\n", code: 1},
		"release-wrong-name":    {scene: held, args: []string{"release", "pvc-" + uid}, input: "yes\nyes\n", code: 1},
		"release-end-of-input":  {scene: held, args: []string{"release", "pvc-" + uid}, code: 1},
		"status-tenant-of-all":  {scene: func(w *world) { w.tenant = true }, args: []string{"status", "-A"}, code: 1},
		"status-no-lease-right": {scene: func(w *world) { w.forbid("leases") }, args: []string{"status"}},
		"status-lease-lost":     {scene: func(w *world) { w.renewed(noon.Add(-3 * time.Hour)) }, args: []string{"status"}},
		"status-lease-renewed":  {scene: func(w *world) { w.renewed(noon.Add(-3 * time.Second)) }, args: []string{"status"}},
		"status-lease-elsewhere": {scene: func(w *world) {
			w.lease.Namespace = "leases"
			args := &w.dispatch.Spec.Template.Spec.Containers[0].Args
			*args = append(*args, "--lease-namespace=leases")
		}, args: []string{"status"}},
		"validate-tenant":       {scene: func(w *world) { w.tenant = true }, args: []string{"validate", "silver"}, code: 1},
		"validate-partly":       {scene: func(w *world) { w.forbid("serviceaccounts") }, args: []string{"validate", "silver"}},
		"release-claims-unread": {scene: func(w *world) { held(w); w.forbid("persistentvolumeclaims") }, args: []string{"release", "pvc-" + uid}, input: "pvc-" + uid + "\nyes\n"},
		"retry-of-another":      {scene: func(w *world) { w.class.Provisioner = "csi.example.com" }, args: []string{"retry", "data"}, code: 5},
		"logs-of-another":       {scene: func(w *world) { w.class.Provisioner = "csi.example.com" }, args: []string{"logs", "data"}, code: 5},
		"why-logs-unread":       {scene: func(w *world) { w.pod("prov-0 failed", 20); w.forbid("pods/log") }, args: []string{"why", "data"}, code: 4},
		"status-json":           {scene: func(w *world) { w.pod("prov-4 failed", 20) }, args: []string{"status", "-o", "json"}},
		"status-yaml-of-claim":  {scene: func(w *world) { w.pod("prov-4 failed", 20) }, args: []string{"status", "data", "-o", "yaml"}, code: 4},
		"why-yaml":              {scene: func(w *world) { w.pod("prov-4 failed", 20) }, args: []string{"why", "data", "-o", "yaml"}, code: 4},
		"why-typo":              {args: []string{"why", "dta"}, code: 1},
		"why-nothing":           {args: []string{"why", "nothing"}, code: 1},
		"why-kind":              {scene: twoPods, args: []string{"why", "pvc/data"}, code: 4},
		"why-of-typo":           {scene: func(w *world) { w.claim.Spec.StorageClassName = new("silvr"); w.claim.Annotations = nil }, args: []string{"why", "persistentvolumeclaim/data"}, code: 4},
		"status-kinds":          {scene: held, args: []string{"status", "persistentvolume/pvc-" + uid}},
		"status-names":          {scene: twoPods, args: []string{"status", "-o", "name"}},
		"status-names-of-all":   {scene: twoPods, args: []string{"status", "-A", "-o", "name"}},
		"status-name-of-volume": {scene: held, args: []string{"status", "pvc-" + uid, "-o", "name", "--namespace", "other"}},
		"status-jsonpath":       {scene: twoPods, args: []string{"status", "-o", "jsonpath={range .claims[*]}{.claim} {.reason}{\"\\n\"}{end}"}},
		"status-color":          {scene: twoPods, args: []string{"status", "--color=always"}},
		"why-color":             {args: []string{"why", "data", "--color=always"}, code: 3},
		"check-color":           {scene: stoppedAndUnlabelled, args: []string{"check", "--color=always"}},
		"wrong-color":           {args: []string{"status", "--color=yes"}, code: 2},
		"wrong-jsonpath":        {args: []string{"status", "-o", "jsonpath={.claims"}, code: 2},
		"why-name":              {args: []string{"why", "data", "-o", "name"}, code: 2},
		"why-namespace":         {args: []string{"why", "team-b/data"}, code: 1},
		"why-gone":              {scene: func(w *world) { w.claim = nil; w.pod("prov-0 failed", 20) }, args: []string{"why", "team-a/data"}, code: 3},
		"why-own-words":         {scene: func(w *world) { says(w.pod("prov-0 failed", 20), "it broke") }, args: []string{"why", "data"}, code: 4},
		"status-volume":         {scene: held, args: []string{"status", "pv/pvc-" + uid}},
		"logs-pod":              {scene: twoPods, args: []string{"logs", "pod/prov-" + uid + "-3"}},
		"why-pod":               {scene: twoPods, args: []string{"why", "prov-" + uid + "-0"}, code: 4},
		"wrong-output":          {args: []string{"status", "-o", "xml"}, code: 2},
		"wrong-flag":            {args: []string{"status", "--nope"}, code: 2},
		"wrong-command":         {args: []string{"nope"}, code: 2},
		"complete-claims":       {args: []string{"__complete", "why", ""}},
		"complete-kind":         {args: []string{"__complete", "why", "pvc/"}},
		"complete-namespace":    {args: []string{"__complete", "logs", "team-a/"}},
		"complete-volumes":      {scene: func(w *world) { w.bound() }, args: []string{"__complete", "status", "pv"}},
		"complete-pods":         {scene: twoPods, args: []string{"__complete", "logs", "prov-"}},
		"complete-pods-of-kind": {scene: twoPods, args: []string{"__complete", "logs", "pod/"}},
		"complete-release":      {scene: held, args: []string{"__complete", "release", ""}},
		"complete-adopt":        {scene: func(w *world) { w.volume("foreign released") }, args: []string{"__complete", "adopt", ""}},
		"complete-classes":      {scene: furtherClass, args: []string{"__complete", "validate", "gold", ""}},
		"complete-configmaps":   {args: []string{"__complete", "render", "cm/"}},
		"complete-from":         {scene: furtherClass, args: []string{"__complete", "adopt", "--all", "--from", ""}},
		"complete-namespaces":   {scene: namespaces, args: []string{"__complete", "status", "-n", "te"}},
		"complete-tenant":       {scene: func(w *world) { w.tenant = true }, args: []string{"__complete", "why", ""}},
		"complete-output":       {args: []string{"__complete", "status", "-o", ""}},
		"conformance-nothing":   {args: []string{"conformance"}, code: 2},
		"conformance-no-yaml":   {args: []string{"conformance", "testdata/broken.yaml"}, code: 1},
		"conformance-pair":      {args: []string{"conformance", "x", "--property", "zone"}, code: 1},
		"conformance-key-twice": {args: []string{"conformance", "x", "--parameter", "a=1", "--parameter", "a=2"}, code: 1},
		"new-bad-name":          {args: []string{"new", "My Disks"}, code: 1},
		"new-bad-language":      {args: []string{"new", "disks", "--lang", "cobol"}, code: 1},
		"new-no-sdk":            {args: []string{"new", "disks", "--lang", "go", "--sdk", "/nowhere"}, code: 1},
		"new-without-name":      {args: []string{"new"}, code: 2},
		"audit":                 {scene: func(w *world) { w.bound() }, args: []string{"audit", "--storage=false"}},
		"audit-finds":           {scene: func(w *world) { w.pod("prov-0 failed", 7200); w.claim = nil }, args: []string{"audit", "--storage=false"}, code: 4},
		"audit-json":            {scene: func(w *world) { w.pod("prov-0 failed", 7200); w.claim = nil }, args: []string{"audit", "--storage=false", "-o", "json"}, code: 4},
		"audit-blind":           {scene: func(w *world) { w.forbid("persistentvolumes") }, args: []string{"audit"}, code: 1},
		"audit-snapshots":       {scene: oddContents, args: []string{"audit", "--storage=false"}, code: 4},
		"audit-snapshots-blind": {scene: func(w *world) { oddContents(w); w.forbid("volumesnapshots", "volumesnapshotcontents") }, args: []string{"audit", "--storage=false"}},
		"why-content-lost":      {scene: oddContents, args: []string{"why", "volumesnapshotcontent/snapcontent-" + another}, code: 4},
		"why-content-unread":    {scene: func(w *world) { oddContents(w); w.forbid("volumesnapshots") }, args: []string{"why", "volumesnapshotcontent/snapcontent-" + another}, code: 1},
		"audit-snapshots-part":  {scene: func(w *world) { oddContents(w); w.forbid("configmaps") }, args: []string{"audit", "--storage=false"}, code: 4},
		"check-snapshots":       {scene: withSnapshots, args: []string{"check"}},
		"check-snapshots-crds":  {scene: func(w *world) { withSnapshots(w); w.lacks = []string{"VolumeSnapshotClass"} }, args: []string{"check"}},
		"check-snapshots-none":  {scene: func(w *world) { w.bound(); w.config.Data["snapshots"] = "true" }, args: []string{"check"}},
		"check-snapshots-alone": {scene: func(w *world) { withSnapshots(w); w.snapshots[0].(*snapshotv1.VolumeSnapshot).Finalizers = nil }, args: []string{"check"}},
		"check-snapshots-class": {scene: func(w *world) {
			withSnapshots(w)
			w.snapshots[1].(*snapshotv1.VolumeSnapshotClass).Parameters = map[string]string{"pool": "a"}
		}, args: []string{"check"}},
		"check-snapshots-driver": {scene: func(w *world) {
			withSnapshots(w)
			w.snapshots = w.snapshots[1:]
			w.snapshots[0].(*snapshotv1.VolumeSnapshotClass).Driver = "csi.example.com"
		}, args: []string{"check"}},
		"check-snapshots-blind": {scene: func(w *world) { withSnapshots(w); w.forbid("volumesnapshotcontents") }, args: []string{"check"}, code: 1},
		"check":                 {scene: func(w *world) { w.bound() }, args: []string{"check"}},
		"check-grantee":         {scene: func(w *world) { w.allowed.Data["slver.volumeTypes"] = "nfs" }, args: []string{"check"}},
		"status-unbound":        {scene: func(w *world) { w.unbound = true }, args: []string{"status"}},
		"check-json":            {scene: stoppedAndUnlabelled, args: []string{"check", "-o", "json"}},
		"check-scripts": {scene: func(w *world) {
			w.config.Data["provision"], w.config.Data["delete"] = "cd /exprt\nmkdir $FLEX_PV_NAME", "set -eu\nrm -rf /export/$FLEX_PV_NAME"
		}, args: []string{"check"}},
		"check-waits":           {scene: func(w *world) { w.pod("prov-0 failed", 20) }, args: []string{"check"}},
		"check-held":            {scene: func(w *world) { w.claim = nil; w.volume("released restored") }, args: []string{"check"}},
		"check-classes":         {scene: brokenClasses, args: []string{"check"}, code: 4},
		"check-nothing-there":   {scene: func(w *world) { w.dispatch.Name, w.lease, w.allowed.Name, w.unguarded = "other", nil, "other", true }, args: []string{"check"}, code: 4},
		"check-one-of-two":      {scene: func(w *world) { w.dispatch.Spec.Replicas = new(int32(2)) }, args: []string{"check"}},
		"check-insecure":        {scene: insecure, args: []string{"check"}},
		"check-lease-lost":      {scene: func(w *world) { w.renewed(noon.Add(-3 * time.Hour)) }, args: []string{"check"}, code: 4},
		"check-unbound":         {scene: func(w *world) { w.unbound = true }, args: []string{"check"}, code: 4},
		"check-partly":          {scene: func(w *world) { w.forbid("leases", "serviceaccounts", "persistentvolumeclaims") }, args: []string{"check"}, code: 1},
		"check-tenant":          {scene: func(w *world) { w.tenant = true }, args: []string{"check"}, code: 1},
		"help-of-status":        {args: []string{"status", "--help"}},
		"help":                  {args: []string{"--help"}},
		"another-provisioner":   {args: []string{"status", "data", "--provisioner-name", "other.example.com/x"}, code: 5},
		"volume-of-another":     {scene: func(w *world) { w.claim = nil; w.volume("foreign released") }, args: []string{"why", "pvc-" + uid}, code: 5},
		"status-without-reason": {scene: func(w *world) { w.lease = nil; w.dispatch.Status.ReadyReplicas = 0 }, args: []string{"status"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.scene != nil {
				c.scene(w)
			}
			output, code := w.run(c.input, c.args...)
			if code != c.code {
				t.Errorf("exit code %d, want %d; printed:\n%s", code, c.code, output)
			}
			golden.Compare(t, "testdata/commands.txtar", name, output)
		})
	}
}

// furtherClass is served by the ConfigMap of silver, and is not in the allow-list.
func furtherClass(w *world) {
	gold := w.class.DeepCopy()
	gold.Name, gold.Parameters = "gold", map[string]string{contract.ParameterConfigFromClass: "silver"}
	w.more = append(w.more, gold)
}

func namespaces(w *world) {
	for _, name := range []string{"team-a", "team-b", "other"} {
		w.more = append(w.more, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
}

func stoppedAndUnlabelled(w *world) {
	stop := w.config.DeepCopy()
	stop.Name, stop.Labels, stop.Data = contract.StopDeletes, nil, map[string]string{"reason": "restoring\na backup"}
	stop.CreationTimestamp = metav1.NewTime(noon.Add(-5 * time.Minute))
	unlabelled := w.config.DeepCopy()
	unlabelled.Name, unlabelled.Labels = "tin", map[string]string{"storage-class": "tin", "type": "provisioner-confg"}
	foreign := unlabelled.DeepCopy()
	foreign.Name, foreign.Data["plugin-name"] = "lead", "other.example.com/x"
	w.more = append(w.more, stop, unlabelled, foreign)
}

// brokenClasses are silver, whose objects do not exist, gold without a ConfigMap, and tin, whose ConfigMap is not valid.
func brokenClasses(w *world) {
	w.account.Name = "other"
	w.config.Data["secrets"], w.config.Data["mount-claims"] = "pool", "exports:/export"
	for _, name := range []string{"gold", "tin", "lead"} {
		class := w.class.DeepCopy()
		class.Name = name
		w.more = append(w.more, class)
	}
	tin := w.config.DeepCopy()
	tin.Name, tin.UID, tin.Labels["storage-class"], tin.Data = "tin", "tin", "tin", map[string]string{"image": "x"}
	lead := w.config.DeepCopy()
	lead.Name, lead.UID, lead.Labels["storage-class"] = "lead", "lead", "lead"
	lead.Data = map[string]string{"plugin-name": contract.ProvisionerName, "image": "x", "service-account-name": "lead", "service-token": "abc"}
	w.more = append(w.more, tin, lead)
}

func insecure(w *world) {
	args := &w.dispatch.Spec.Template.Spec.Containers[0].Args
	*args = append(*args, "--insecure-without-policies")
}

func twoPods(w *world) {
	w.pod("prov-0 failed kept", 60)
	w.pod("prov-3 failed", 20)
}

// lostAndFailed is a volume that was given to another claim, and lost its annotations, so that Kubernetes marked it
// Failed.
func lostAndFailed(w *world) {
	w.claim = nil
	v := w.volume("released bare")
	v.Status.Phase, v.Spec.ClaimRef.UID = corev1.VolumeFailed, another
}

func held(w *world) { w.claim = nil; w.volume("released restored retain") }

// TestHelpFits: the help of each command fits a screen of 40 lines and 100 columns, and so does the list of what all take.
func TestHelpFits(t *testing.T) {
	w := newWorld(t)
	texts := map[string]string{}
	var add func(c *cobra.Command, path ...string)
	add = func(c *cobra.Command, path ...string) {
		output, code := w.run("", append(path, "--help")...)
		texts[strings.Join(path, " ")] = output
		if code != 0 || !strings.Contains(output, c.Short) && c.Long == "" || !strings.Contains(output, "Usage:\n  kubectl flex") {
			t.Errorf("%v --help: exit code %d:\n%s", path, code, output)
		}
		for _, sub := range c.Commands() {
			add(sub, append(slices.Clone(path), sub.Name())...)
		}
	}
	add(newCommand("kubectl flex", genericiooptions.IOStreams{}))
	list, code := w.run("", "options")
	if code != 0 || !strings.Contains(list, "--kubeconfig string") || !strings.Contains(list, "--system-namespace string") {
		t.Errorf("options: exit code %d:\n%s", code, list)
	}
	texts["(what options prints)"] = list
	for name, text := range texts {
		if lines := strings.Count(text, "\n"); lines > 40 {
			t.Errorf("%s: %d lines", name, lines)
		}
		for line := range strings.Lines(text) {
			if n := len(strings.TrimSuffix(line, "\n")); n > 100 {
				t.Errorf("%s: a line of %d columns: %s", name, n, line)
			}
		}
	}
	if len(texts) < 15 {
		t.Errorf("%d texts were looked at", len(texts))
	}
}

// TestRetry: the newest failed pod is asked, and the plan made of that starts the next attempt.
func TestRetry(t *testing.T) {
	w := newWorld(t)
	twoPods(w)
	if output, code := w.run("", "retry", "data"); code != 0 || output != "data is tried again now, instead of in 8s.\n" {
		t.Fatalf("%s, %d", output, code)
	}
	pod, err := w.client.CoreV1().Pods(contract.ProvisionersNamespace).Get(context.Background(), "prov-"+uid+"-3", metav1.GetOptions{})
	if err != nil || pod.Annotations[contract.AnnRetry] != "true" {
		t.Errorf("%v, %v", pod.Annotations, err)
	}
	if output, code := w.run("", "retry", "data"); code != 1 || !strings.Contains(output, "was asked for on pod prov-"+uid+"-3 already") {
		t.Errorf("%s, %d", output, code)
	}
}

// TestStopDeletes: on, on with another reason, shown, off, and off again.
func TestStopDeletes(t *testing.T) {
	w := newWorld(t)
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"on", "--reason", "restoring\na backup"}, "In namespace flex-provisioners, deletions are stopped: restoring a backup\nTo let them go on: kubectl flex stop-deletes off\n"},
		{[]string{"on", "--reason", "looking"}, "In namespace flex-provisioners, deletions were stopped already, for 5m: restoring a backup\nThe reason is now: looking\n"},
		{nil, "In namespace flex-provisioners, deletions are stopped, for 5m: looking\n"},
		{[]string{"off"}, "In namespace flex-provisioners, deletions go on. They were stopped, for 5m: looking\n"},
		{[]string{"off"}, "In namespace flex-provisioners, deletions are not stopped.\n"},
	} {
		if output, code := w.run("", append([]string{"stop-deletes"}, step.args...)...); code != 0 || output != step.want {
			t.Fatalf("%v: %s, %d", step.args, output, code)
		}
		maps := w.client.CoreV1().ConfigMaps(contract.ProvisionersNamespace)
		cm, err := maps.Get(t.Context(), contract.StopDeletes, metav1.GetOptions{})
		if err != nil {
			continue
		}
		if was := cm.Labels["team"]; was == "" && cm.Data["reason"] == "looking" {
			t.Error("the labels are gone")
		}
		cm.Labels, cm.CreationTimestamp = map[string]string{"team": "storage"}, metav1.NewTime(noon.Add(-5*time.Minute))
		if _, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStopDeletesOfWhom: without the dispatcher's Deployment the namespace has to be said.
func TestStopDeletesOfWhom(t *testing.T) {
	for _, scene := range []func(w *world){
		func(w *world) { w.dispatch.Name = "other" },
		func(w *world) {
			w.run("", "status")
			w.client.PrependReactor("get", "deployments", forbidden)
		},
	} {
		w := newWorld(t)
		scene(w)
		const want = "error: namespace flex-system has no Deployment flex-provisioner that may be read, so that the dispatcher's namespace for provisioners is not known: " +
			"name it with --provisioners-namespace, or the dispatcher's with --system-namespace\n"
		for _, what := range [][]string{{"on", "--reason", "looking"}, {"off"}, nil} {
			if output, code := w.run("", append([]string{"stop-deletes"}, what...)...); code != 1 || output != want {
				t.Errorf("%v: %s, %d", what, output, code)
			}
		}
		if output, code := w.run("", "stop-deletes", "on", "--reason", "looking", "--provisioners-namespace", "elsewhere"); code != 0 || !strings.HasPrefix(output, "In namespace elsewhere, deletions are stopped: looking\n") {
			t.Errorf("%s, %d", output, code)
		}
	}
}

// TestRelease: a volume that was retained goes the way of one that is to be deleted, after both answers.
func TestRelease(t *testing.T) {
	for name, scene := range map[string]func(w *world){"held": held, "lost record": lostAndFailed} {
		w := newWorld(t)
		scene(w)
		output, code := w.run("pvc-"+uid+"\nyes\n", "release", "pvc-"+uid)
		v, err := w.client.CoreV1().PersistentVolumes().Get(context.Background(), "pvc-"+uid, metav1.GetOptions{})
		if err != nil || code != 0 {
			t.Fatalf("%s: %s, %d, %v", name, output, code, err)
		}
		if v.Annotations[contract.AnnAllowDelete] != "true" || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete ||
			v.Annotations[contract.ProvisionedBy] != contract.ProvisionerName || len(v.Finalizers) != 1 {
			t.Errorf("%s: %v, %v, %s", name, v.Annotations, v.Finalizers, v.Spec.PersistentVolumeReclaimPolicy)
		}
	}
}

// TestReleaseOfChanged: a controller's write between the questions and the answers does not keep an administrator from
// releasing a volume; a change of what the administrator was told does.
func TestReleaseOfChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(v *corev1.PersistentVolume)
		code   int
		output string
	}{
		"an annotation": {
			change: func(v *corev1.PersistentVolume) { v.Annotations["example.com/seen"] = "true" },
			output: "The dispatcher was asked to remove the storage of volume pvc-" + uid + ".",
		},
		"given to another claim": {
			change: func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.Name, v.Spec.ClaimRef.UID = "other", another },
			code:   1,
			output: "error: volume pvc-" + uid + " was changed while the questions were answered, and nothing was done: say the command again",
		},
		"bound again": {
			change: func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound },
			code:   1,
			output: "error: volume pvc-" + uid + " is Bound, not Released: delete its claim first",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			held(w)
			w.run("", "status")
			volumes := corev1.SchemeGroupVersion.WithResource("persistentvolumes")
			patches := 0
			w.client.PrependReactor("patch", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
				patches++
				if patches > 1 {
					return false, nil, nil
				}

				object, err := w.client.Tracker().Get(volumes, "", "pvc-"+uid)
				w.must(err)
				v := object.(*corev1.PersistentVolume)
				v.ResourceVersion = "2"
				c.change(v)
				w.must(w.client.Tracker().Update(volumes, v, ""))
				return true, nil, apierrors.NewConflict(volumes.GroupResource(), v.Name, errors.New("changed"))
			})

			output, code := w.run("pvc-"+uid+"\nyes\n", "release", "pvc-"+uid)
			if code != c.code || !strings.Contains(output, c.output) {
				t.Errorf("exit code %d, want %d: %s", code, c.code, output)
			}

			v, err := w.client.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-"+uid, metav1.GetOptions{})
			w.must(err)
			if released := v.Annotations[contract.AnnAllowDelete] == "true"; released != (c.code == 0) {
				t.Errorf("released: %t, with exit code %d", released, code)
			}
		})
	}
}

// TestMaySay: rights that are missing never keep a user from the answer, and the answer says which they are.
func TestMaySay(t *testing.T) {
	w := newWorld(t)
	w.tenant = true
	output, _ := w.run("", "status", "-o", "yaml")
	for _, right := range []string{"list persistentvolumes", "list pods in namespace flex-provisioners", "list storageclasses"} {
		if !strings.Contains(output, "right: "+right+"\n") {
			t.Errorf("%q is not named:\n%s", right, output)
		}
	}
}

// TestWatch: what changes is shown, and it ends when the claim is bound.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	if _, code := w.run("", "status", "data"); code != exitWaits {
		t.Fatalf("exit code %d", code)
	}
	looks := 0
	w.client.PrependReactor("list", "persistentvolumeclaims", func(clienttesting.Action) (bool, runtime.Object, error) {
		switch looks++; looks {
		case 3:
			w.must(w.client.Tracker().Add(w.pod("prov-0 running", 20)))
		case 6:
			w.must(w.client.Tracker().Add(w.bound()))
			w.must(w.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), w.claim, "team-a"))
		}
		return false, nil, nil
	})
	output, code := w.run("", "status", "data", "--watch")
	var phases []string
	for line := range strings.Lines(output) {
		if fields := strings.Fields(line); fields[0] == "team-a/data" {
			phases = append(phases, fields[3])
		}
	}
	if want := []string{"Waiting", "Running", "Bound"}; code != 0 || !slices.Equal(phases, want) || strings.Count(output, "PHASE") != 1 {
		t.Errorf("exit code %d, phases %v, want %v:\n%s", code, phases, want, output)
	}
}

//go:build e2e

package attack

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cluster"
	"github.com/flex-provisioner/flex-provisioner/test/request"
)

// stolenToken makes the volume of a pod that runs, with the pod's token and with "patch" applied to what the pod would make.
// Then the pod goes on, and the claim is deleted. The victim's data have to stay, the delete pod must not see anything forged,
// and the volume has to go with its storage.
func stolenToken(s *story) {
	claim := s.make(s.tenant, nil)
	var pod *corev1.Pod
	s.await(patient, "its pod runs", func() (lack string) { pod, lack = s.running(s.ctx, claim); return lack })
	var volume map[string]any
	s.ok(yaml.Unmarshal([]byte(pod.Annotations[contract.AnnVolume]), &volume))
	volume = request.Merged(volume, map[string]any{"spec": map[string]any{"nfs": map[string]any{"server": "10.99.0.1", "path": directory(claim)}}})
	s.makeAs(pod, request.Merged(volume, s.forgery()))
	made := s.volumeOf(s.ctx, claim)
	s.ok(s.open(claim))
	s.told(claim.UID, made.UID)
	s.await(soon, "its claim is bound", func() string { return s.notBound(s.ctx, claim) })
	s.await(soon, "its pods have been acted on", func() string { return s.withPod(claim) })
	s.remove(claim)
	s.await(soon, "its volume is gone", func() string { return s.gone(s.ctx, claim) })
	s.judgeDelete(claim)
}

// forgery is the case's patch. What a victim's volume says is at hand to a thief who saw it.
func (s *story) forgery() map[string]any {
	s.Helper()
	patch := s.object("patch")
	if s.text("record") != "another volume" {
		return patch
	}
	annotations := map[string]any{}
	for key, value := range s.volumeOf(s.ctx, s.data).Annotations {
		if strings.HasPrefix(key, contract.Prefix) && key != contract.AnnClaimUID {
			annotations[key] = value
		}
	}
	return request.Merged(patch, map[string]any{"metadata": map[string]any{"annotations": annotations}})
}

// makeAs creates the volume with the token of the pod.
func (s *story) makeAs(pod *corev1.Pod, volume map[string]any) {
	s.Helper()
	thief, err := s.client(s.ctx, identity{Account: pod.Spec.ServiceAccountName, Pod: pod.Name})
	s.ok(err)
	text, err := json.Marshal(volume)
	s.ok(err)
	err = thief.CoreV1().RESTClient().Post().RequestURI("/api/v1/persistentvolumes").SetHeader("Content-Type", "application/json").Body(text).Do(s.ctx).Error()
	s.ok(err)
}

// withPod names a pod of the claim that provisions.
func (s *story) withPod(claim *corev1.PersistentVolumeClaim) string {
	for _, pod := range s.pods(s.ctx, claim.UID) {
		if pod.Labels[contract.LabelOperation] == string(contract.Provision) {
			return "pod " + pod.Name + " is there"
		}
	}
	return ""
}

// judgeDelete looks at what the pods that deleted were told, and at the victim's data.
func (s *story) judgeDelete(claim *corev1.PersistentVolumeClaim) {
	s.Helper()
	files, err := filepath.Glob(exportDir + "/seen/" + podspec.Name(contract.Delete, string(claim.UID), 0)[:len("del-")+36] + "-*")
	s.ok(err)
	if len(files) == 0 {
		s.Error("no pod deleted")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		s.ok(err)
		env := string(text)
		if strings.Contains(env, "forged") || !strings.Contains("\n"+env, "\nFLEX_PV_NAME="+podspec.VolumeName(string(claim.UID))+"\n") {
			s.Errorf("went through: pod %s saw what was forged:\n%s", filepath.Base(file), env)
		}
	}
	if !cluster.Exists(directory(s.data)) {
		s.Errorf("went through: the victim's data %s are gone", directory(s.data))
		s.ok(os.MkdirAll(directory(s.data), 0o777)) // for the other cases
	}
}

// hostileWords has a pod fail with a message that would mislead who reads it.
func hostileWords(s *story) {
	s.name = "says-" + s.name
	claim := s.make(s.tenant, nil)
	s.told(claim.UID)
	for _, e := range s.eventList(s.ctx, claim.UID) {
		if strings.ContainsFunc(e.Message, func(r rune) bool { return !unicode.IsPrint(r) && r != ' ' }) {
			s.Errorf("went through: the event %s has characters that cannot be seen: %q", e.Reason, e.Message)
		}
	}
}

// strangeVolume makes a volume that no pod of ours made and no policy keeps out, as a tool that restores backups may. The
// dispatcher has to go on.
func strangeVolume(s *story) {
	volume := request.Merged(map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolume", "metadata": map[string]any{"name": s.name, "annotations": map[string]any{contract.ProvisionedBy: contract.ProvisionerName}},
		"spec": map[string]any{"capacity": map[string]any{"storage": "1Gi"}, "accessModes": []any{"ReadWriteMany"}, "storageClassName": className,
			"persistentVolumeReclaimPolicy": "Retain", "nfs": map[string]any{"server": "10.99.0.1", "path": "/none"}},
	}, s.object("patch"))
	text, err := json.Marshal(volume)
	s.ok(err)
	volumes := s.admin.CoreV1().PersistentVolumes()
	s.ok(s.admin.CoreV1().RESTClient().Post().RequestURI("/api/v1/persistentvolumes").SetHeader("Content-Type", "application/json").Body(text).Do(s.ctx).Error())
	s.Cleanup(func() {
		ctx := context.Background()
		_ = volumes.Delete(ctx, s.name, metav1.DeleteOptions{})
		_, _ = volumes.Patch(ctx, s.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	})
	s.served(soon)
}

// changedVolume has somebody with rights on volumes change the one of a bound claim. When the claim is deleted its storage has
// to stay, and the volume has to say why.
func changedVolume(s *story) {
	claim := s.make(s.victim, nil)
	s.ok(s.open(claim))
	s.await(soon, "its claim is bound", func() string { return s.notBound(s.ctx, claim) })
	s.await(soon, "its pods have been acted on", func() string { return s.withPod(claim) })
	patch, err := json.Marshal(s.object("patch"))
	s.ok(err)
	volume, err := s.clients[s.text("as")].CoreV1().PersistentVolumes().Patch(s.ctx, podspec.VolumeName(string(claim.UID)), types.MergePatchType, patch, metav1.PatchOptions{})
	s.ok(err)
	s.Cleanup(func() {
		_, err := s.admin.CoreV1().PersistentVolumes().Patch(context.Background(), volume.Name, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"`+contract.AnnIdentity+`":null,"`+contract.AnnAllowDelete+`":"true"}}}`), metav1.PatchOptions{})
		if err != nil {
			s.Logf("mend volume: %v", err)
		}
	})
	s.remove(claim)
	s.told(volume.UID)
	if !cluster.Exists(directory(claim)) {
		s.Error("went through: its storage is gone")
	}
	if !cluster.Exists(directory(s.data)) {
		s.Errorf("went through: the victim's data %s are gone", directory(s.data))
		s.ok(os.MkdirAll(directory(s.data), 0o777))
	}
}

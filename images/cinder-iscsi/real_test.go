//go:build cinder

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cloud"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// These tests need what "make cinder-up" starts: go test -tags cinder ./images/cinder-iscsi

// environment is .cinder/env, lines of KEY=value.
func environment(t testing.TB) map[string]string {
	t.Helper()
	file := os.Getenv("CINDER_ENV")
	if file == "" {
		file = "../../.cinder/env"
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; run make cinder-up", err)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), "="); found {
			values[strings.TrimPrefix(key, "export ")] = strings.Trim(value, `"'`)
		}
	}
	return values
}

// credentials are all ways into the Cinder that runs.
func credentials(t testing.TB) map[string]map[string]string {
	t.Helper()
	env := environment(t)
	if env["CINDER_AUTH"] != "keystone" {
		return map[string]map[string]string{"noauth": {"cloud.conf": "[Cinder]\nendpoint=" + env["CINDER_ENDPOINT"] + "\n[Global]\ntenant-name=" + env["CINDER_PROJECT"] + "\n"}}
	}
	openrc := map[string]string{}
	for key, value := range env {
		if strings.HasPrefix(key, "OS_") {
			openrc[key] = value
		}
	}
	appCred := map[string]string{"OS_AUTH_URL": env["OS_AUTH_URL"], "OS_INTERFACE": env["OS_INTERFACE"],
		"OS_APPLICATION_CREDENTIAL_ID": env["APPCRED_ID"], "OS_APPLICATION_CREDENTIAL_SECRET": env["APPCRED_SECRET"]}
	return map[string]map[string]string{"password": openrc, "application credential": appCred}
}

// realStage has a cluster, and the Cinder that runs.
func realStage(t testing.TB, config map[string]string) *stage {
	return &stage{t: t, cluster: newCluster(t), config: config}
}

// realRun is stage.run without the fake's part; uid is the claim's.
func (s *stage) realRun(ctx context.Context, op contract.Operation, uid string) result {
	request := sdktest.Provision(nil)
	request.Operation, request.Claim.UID, request.VolumeName, request.SizeBytes, request.TimeoutSeconds = op, uid, "pvc-"+uid, 1<<30, 600
	request.Parameters = s.parameters
	if s.change != nil {
		s.change(&request)
	}
	volume := sdktest.Skeleton(request)
	if op != contract.Provision {
		volume = s.cluster.Volume(request.VolumeName)
	}
	pod := s.pod(request, volume)
	var log bytes.Buffer
	err := sdk.Run(ctx, pod.Root, provisioner{root: pod.Root, log: &log})
	code := sdk.Report(pod.Root, err, &log)
	return result{code, pod.Message(s.t), pod.Location(s.t), log.String()}
}

// connect logs in with the files of a Secret.
func connect(ctx context.Context, config map[string]string) (*cloud.Client, error) {
	files := cloud.Files{}
	for key, value := range config {
		files[key] = []byte(value)
	}
	parsed, err := cloud.Parse(files, "")
	if err != nil {
		return nil, err
	}
	return parsed.Connect(ctx)
}

func (s *stage) client(t testing.TB) *cinder.Client {
	t.Helper()
	client, err := connect(t.Context(), s.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return cinder.New(client)
}

func TestRealCinder(t *testing.T) {
	for how, config := range credentials(t) {
		t.Run(how, func(t *testing.T) {
			s := realStage(t, config)
			uid := "5e1f0000-0000-4000-8000-" + fmt.Sprintf("%012x", time.Now().UnixNano()&0xffffffffffff)
			s.realRun(t.Context(), contract.Provision, uid).want(t, 0, "")
			// The same again finds what is there, as after a lost answer.
			s.realRun(t.Context(), contract.Provision, uid).want(t, 0, "")
			found, err := s.client(t).Find(t.Context(), "pvc-"+uid)
			if err != nil || len(found) != 1 || found[0].Status != "in-use" || len(found[0].Attachments) != 1 {
				t.Fatalf("in cinder there is %+v, %v", found, err)
			}
			const cli = "openstack --os-volume-api-version 3.27 volume attachment "
			attachment := found[0].Attachments[0].AttachmentID
			s.wantListed(uid, cli+"set --host k8s-"+strings.ReplaceAll(uid, "-", "")[:18]+" --ip 127.0.0.1 --platform x86_64 --os-type linux --initiator "+
				"iqn.2026-01.io.flex-provisioner:pvc-"+uid+" "+attachment+" && "+cli+"delete "+attachment+" && openstack volume delete "+found[0].ID)
			volume := s.cluster.Volume("pvc-" + uid)
			if volume.Spec.ISCSI == nil || !volume.Spec.ISCSI.SessionCHAPAuth || len(s.cluster.Secrets()) != 1 {
				t.Errorf("volume %s", asJSON(t, volume.Spec.PersistentVolumeSource))
			}
			s.cluster.AddNode("node-1", corev1.UniqueVolumeName(fmt.Sprintf("kubernetes.io/iscsi/%s:%s:%d", volume.Spec.ISCSI.TargetPortal, volume.Spec.ISCSI.IQN, volume.Spec.ISCSI.Lun)))
			s.realRun(t.Context(), contract.Delete, uid).want(t, 75, "volume pvc-"+uid+" is still in use on node node-1")
			s.cluster.SetNodes()
			s.realRun(t.Context(), contract.Delete, uid).want(t, 0, "")
			if found, err := s.client(t).Find(t.Context(), "pvc-"+uid); err != nil || len(found) != 0 || len(s.cluster.Secrets()) != 0 {
				t.Errorf("left in cinder: %+v, %v; %d secrets", found, err, len(s.cluster.Secrets()))
			}
			s.wantListed(uid, "")
		})
	}
}

// wantListed wants the operation list to name the claim's volume with that command to remove it, or, without one, not at all.
func (s *stage) wantListed(uid, remove string) {
	s.t.Helper()
	pod := s.pod(sdktest.List(nil), nil)
	storage, err := provisioner{root: pod.Root, log: io.Discard}.List(s.t.Context(), sdktest.List(nil))
	if err != nil {
		s.t.Errorf("list: %v", err)
	}
	storage = slices.DeleteFunc(storage, func(v sdk.Storage) bool { return v.Name != "pvc-"+uid })
	var want []sdk.Storage
	if remove != "" {
		want = []sdk.Storage{{Name: "pvc-" + uid, Remove: remove}}
	}
	if !slices.Equal(storage, want) {
		s.t.Errorf("listed: %q, want %q", storage, want)
	}
}

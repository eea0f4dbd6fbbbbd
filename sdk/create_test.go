package sdk_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

const name = "pvc-8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11"

func newClient(t *testing.T, server *sdktest.Server) rest.Interface {
	t.Helper()
	pod := sdktest.NewPod(t, sdktest.Provision(nil), nil, server)
	t.Setenv("FLEX_KUBE_API", server.URL)
	client, err := sdk.NewClient(pod.Root)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func newVolume() *corev1.PersistentVolume {
	volume := sdktest.Skeleton(sdktest.Provision(nil))
	volume.Spec.PersistentVolumeSource = nfs
	return volume
}

func TestCreateVolume(t *testing.T) {
	forbidden := sdktest.Fault{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "volume source nfs is not allowed"}
	invalid := sdktest.Fault{Code: 422, Reason: metav1.StatusReasonInvalid, Message: "spec.nfs.path: Required value"}
	for _, c := range []struct {
		name    string
		faults  []sdktest.Fault
		created bool
		tries   int
		err     string
	}{
		{name: "well", created: true, tries: 1},
		{name: "busy, unavailable, broken", created: true, tries: 5, faults: []sdktest.Fault{
			{Code: 429, Message: "Too many requests, please try again later."},
			{Code: 503, Message: "apiserver is shutting down"},
			{Code: 500, Reason: metav1.StatusReasonInternalError, Message: "etcdserver: leader changed"},
			{Code: 504, Reason: metav1.StatusReasonTimeout, Message: "request did not complete within the allotted timeout"},
		}},
		{name: "connection closed before the write", created: true, tries: 2, faults: []sdktest.Fault{{Before: true}}},
		{name: "connection closed after the write", created: false, tries: 2, faults: []sdktest.Fault{{After: true}}},
		{name: "refused by a policy", tries: 1, faults: []sdktest.Fault{forbidden},
			err: "create persistentvolume " + name + ": volume source nfs is not allowed"},
		{name: "invalid", tries: 1, faults: []sdktest.Fault{invalid},
			err: "create persistentvolume " + name + ": spec.nfs.path: Required value"},
		{name: "refused at last", tries: 2, faults: []sdktest.Fault{{Before: true}, forbidden},
			err: "create persistentvolume " + name + ": volume source nfs is not allowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := sdktest.NewServer(t, c.faults...)
			created, err := sdk.CreateVolume(t.Context(), newClient(t, server), newVolume())
			if (err == nil) != (c.err == "") || err != nil && (err.Error() != c.err || sdk.ExitCode(err) != 1) {
				t.Errorf("error %v with code %d, want %q with code 1", err, sdk.ExitCode(err), c.err)
			}
			if created != c.created || server.Tries() != c.tries {
				t.Errorf("created %t in %d tries, want %t in %d", created, server.Tries(), c.created, c.tries)
			}
			if exists := server.Volume(name) != nil; exists != (c.err == "") {
				t.Errorf("the volume exists: %t", exists)
			}
		})
	}
}

func TestCreateVolumeAtOnce(t *testing.T) {
	client := newClient(t, sdktest.NewServer(t))
	var wait sync.WaitGroup
	results := make([]bool, 8)
	for i := range results {
		wait.Go(func() {
			created, err := sdk.CreateVolume(t.Context(), client, newVolume())
			if err != nil {
				t.Error(err)
			}
			results[i] = created
		})
	}
	wait.Wait()
	if n := len(slices.DeleteFunc(results, func(created bool) bool { return !created })); n != 1 {
		t.Errorf("%d of the calls created the volume, want 1", n)
	}
}

func TestCreateVolumeHonoursRetryAfter(t *testing.T) {
	server := sdktest.NewServer(t, sdktest.Fault{Code: 429, Message: "Too many requests", RetryAfter: 1})
	start := time.Now()
	if _, err := sdk.CreateVolume(t.Context(), newClient(t, server), newVolume()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < time.Second {
		t.Errorf("tried again after %s, the API server asked for 1s", took)
	}
}

// A volume that was read from the API can be handed over: with its resourceVersion it would be refused.
func TestCreateVolumeSendsNoStatus(t *testing.T) {
	server := sdktest.NewServer(t)
	volume := newVolume()
	volume.ResourceVersion, volume.UID, volume.Generation = "17", "1234", 3
	volume.CreationTimestamp = metav1.Now()
	volume.Status.Phase = corev1.VolumeBound
	if _, err := sdk.CreateVolume(t.Context(), newClient(t, server), volume); err != nil {
		t.Fatal(err)
	}
	var sent map[string]map[string]any
	var top map[string]any
	if err := json.Unmarshal(server.Volume(name), &top); err != nil {
		t.Fatal(err)
	}
	delete(top, "apiVersion")
	delete(top, "kind")
	data, _ := json.Marshal(top)
	if err := json.Unmarshal(data, &sent); err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(top)); !slices.Equal(got, []string{"metadata", "spec"}) {
		t.Errorf("sent %v, want metadata and spec", got)
	}
	if got := slices.Sorted(maps.Keys(sent["metadata"])); !slices.Equal(got, []string{"annotations", "finalizers", "name"}) {
		t.Errorf("sent metadata %v, want annotations, finalizers and name", got)
	}
}

// A certificate that is not trusted stays so: it is no reason to wait.
func TestCreateVolumeUntrusted(t *testing.T) {
	server := sdktest.NewServer(t)
	server.CA = otherCA
	_, err := sdk.CreateVolume(t.Context(), newClient(t, server), newVolume())
	if sdk.ExitCode(err) != 1 || err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("error %v with code %d", err, sdk.ExitCode(err))
	}
	if server.Tries() != 0 {
		t.Errorf("%d requests reached a server that is not trusted", server.Tries())
	}
}

// The kubelet renews the token while the pod runs. A new client sees it at once; client-go reads it again every minute.
func TestClientReadsTokenFile(t *testing.T) {
	server := sdktest.NewServer(t)
	pod := sdktest.NewPod(t, sdktest.Provision(nil), nil, server)
	t.Setenv("FLEX_KUBE_API", server.URL)
	server.SetToken("renewed")
	config, err := sdk.NewConfig(pod.Root)
	if err != nil {
		t.Fatal(err)
	}
	if config.BearerToken != "" || config.BearerTokenFile != filepath.Join(pod.Root, contract.TokenFile) {
		t.Errorf("config holds the token itself, or not its file: %s", config.BearerTokenFile)
	}
	for _, c := range []struct{ token, err string }{
		{sdktest.Token, "create persistentvolume " + name + ": Unauthorized"},
		{"renewed", "<nil>"},
	} {
		if err := os.WriteFile(config.BearerTokenFile, []byte(c.token), 0o600); err != nil {
			t.Fatal(err)
		}
		client, err := sdk.NewClient(pod.Root)
		if err != nil {
			t.Fatal(err)
		}
		_, err = sdk.CreateVolume(t.Context(), client, newVolume())
		if got := errorText(err); got != c.err {
			t.Errorf("error %s, want %s", got, c.err)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return "<nil>"
	}
	return err.Error()
}

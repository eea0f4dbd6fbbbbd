package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
	"github.com/flex-provisioner/flex-provisioner/test/golden"
)

const calls = "testdata/calls.txtar"

// cliCase is one call; what it prints, ends with and writes is in calls.
type cliCase struct {
	name   string
	args   []string
	stdin  string
	undo   bool // the pod deletes, and has no volume
	delete bool // the pod deletes a volume
	faults []sdktest.Fault
	fsType string // the class's parameter csi.storage.k8s.io/fstype
	source string // of the claim that is mounted at /export
	// hostname is the label of the pod's node, where that is not its name.
	hostname string
	// reported is the location that the script has reported.
	reported string
}

const nfsSource = "nfs: {server: 10.0.0.1, path: /exports/x}\n"

func newRequest(c cliCase) (contract.Request, *corev1.PersistentVolume) {
	properties := map[string]string{"zone": "west", "tier.name": "gold"}
	if c.undo {
		return sdktest.Delete(properties), nil
	}
	mounts := []contract.Mount{}
	if c.source != "" {
		mounts = append(mounts, contract.Mount{Claim: "exports", Source: c.source, Path: "/export"})
	}
	volume := sdktest.Skeleton(sdktest.Provision(properties))
	if c.delete {
		volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "lun-7"}
		volume.Spec.NodeAffinity = sdk.NodeAffinity("kubernetes.io/hostname", sdktest.Node)
		request := sdktest.Delete(properties)
		request.Mounts = mounts
		return request, volume
	}
	request := sdktest.Provision(properties)
	request.Mounts, request.NodeHostname = mounts, c.hostname
	if c.fsType != "" {
		request.Parameters = map[string]string{contract.ParameterFSType: c.fsType}
	}
	return request, volume
}

func TestMain(m *testing.M) { os.Exit(golden.Main(m)) }

func TestGolden(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			server := sdktest.NewServer(t, c.faults...)
			request, volume := newRequest(c)
			pod := sdktest.NewPod(t, request, volume, server)
			if c.reported != "" {
				if err := sdk.SetLocation(pod.Root, c.reported); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("FLEX_ROOT", pod.Root)
			t.Setenv("FLEX_NODE", sdktest.Node)
			t.Setenv("FLEX_KUBE_API", server.URL)
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), c.args, streams{strings.NewReader(c.stdin), &stdout, &stderr})
			got := report(c, code, stdout.String(), stderr.String(), pod.Message(t), server)
			got = strings.NewReplacer(pod.Root, "$ROOT", server.URL, "$API").Replace(got)
			golden.Compare(t, calls, c.name, got)
		})
	}
}

func report(c cliCase, code int, stdout, stderr, message string, server *sdktest.Server) string {
	var text strings.Builder
	fmt.Fprintf(&text, "args: flexctl %s\ncode: %d\n", strings.Join(c.args, " "), code)
	for _, part := range []struct{ title, text string }{
		{"stdin", c.stdin}, {"stdout", stdout}, {"stderr", stderr}, {"termination message", message},
	} {
		if part.text != "" {
			fmt.Fprintf(&text, "--- %s\n%s\n", part.title, strings.TrimSuffix(part.text, "\n"))
		}
	}
	if tries := server.Tries(); tries > 0 {
		created, err := yaml.JSONToYAML(server.Volume(sdktest.Provision(nil).VolumeName))
		if err != nil {
			created = []byte(err.Error())
		}
		fmt.Fprintf(&text, "--- API server after %d requests\n%s", tries, created)
	}
	return text.String()
}

func status(code int, reason metav1.StatusReason, message string) []sdktest.Fault {
	return []sdktest.Fault{{Code: code, Reason: reason, Message: message}}
}

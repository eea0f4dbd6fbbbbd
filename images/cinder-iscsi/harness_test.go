package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// project is one that every Cinder takes in a URL.
const project = "11111111111111111111111111111111"

// name is the volume of sdktest's requests.
const name = "pvc-8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11"

// ourMetadata marks a volume as made by an earlier run.
var ourMetadata = map[string]string{"flex-provisioner.io/claim-uid": name[4:]}

// stage is a Cinder, a cluster and a class.
type stage struct {
	t          testing.TB
	cinder     *fake.Cinder
	cluster    *testCluster
	config     map[string]string // the files of the mounted Secret
	parameters map[string]string
	change     func(*sdk.Request)
}

func newStage(t testing.TB, options ...fake.Option) *stage {
	s := &stage{t: t, cinder: fake.New(t, options...), cluster: newCluster(t)}
	s.config = map[string]string{"cloud.conf": fmt.Sprintf("[Cinder]\nendpoint = %s\n[Global]\ntenant-name = %s\n", s.cinder.Endpoint(), project)}
	return s
}

func (s *stage) with(parameters map[string]string) *stage { s.parameters = parameters; return s }

func (s *stage) asking(change func(*sdk.Request)) *stage { s.change = change; return s }

// result is how a run ended, as the dispatcher sees it.
type result struct {
	code     int
	message  string
	location string
	log      string
}

func (s *stage) provision(ctx context.Context) result {
	request := s.request(contract.Provision)
	return s.run(ctx, request, sdktest.Skeleton(request))
}

// delete is an undo where the cluster has no volume.
func (s *stage) delete(ctx context.Context) result {
	return s.run(ctx, s.request(contract.Delete), s.cluster.Volume(name))
}

func (s *stage) undo(ctx context.Context) result { return s.run(ctx, s.request(contract.Delete), nil) }

func (s *stage) attach(ctx context.Context) result {
	_, got := s.onNode(ctx, contract.Attach, "node-a")
	return got
}

// onNode is run for an attachment, without what sdk.Main does after it. A run waits for a part of its time for what a dead one
// began, so it has little.
func (s *stage) onNode(ctx context.Context, op contract.Operation, node string) (published map[string]string, got result) {
	s.t.Helper()
	request := s.request(op)
	if request.TimeoutSeconds == 60 {
		request.TimeoutSeconds = 4
	}
	request.Attachment = &contract.AttachmentRequest{Name: "csi-1", UID: name[4:], Node: node,
		Connector: fmt.Sprintf(`{"iqn": "iqn.1994-05.com.redhat:%s"}`, node)}
	volume := s.cluster.Volume(request.VolumeName)
	pod := s.pod(request, volume)
	var log bytes.Buffer
	p, err := provisioner{root: pod.Root, log: &log}, error(nil)
	if op == contract.Attach {
		published, err = p.Attach(ctx, request, volume)
	} else {
		err = p.Detach(ctx, request, volume)
	}
	got.code = sdk.Report(pod.Root, err, &log)
	got.message, got.log = pod.Message(s.t), log.String()
	s.remember(fmt.Sprint(published, got.message, got.log))
	return published, got
}

func (s *stage) request(op contract.Operation) sdk.Request {
	request := sdktest.Provision(nil)
	request.Operation, request.Parameters, request.TimeoutSeconds = op, s.parameters, 60
	if s.change != nil {
		s.change(&request)
	}
	return request
}

// run is sdk.Main without its exit.
func (s *stage) run(ctx context.Context, request sdk.Request, volume *corev1.PersistentVolume) result {
	s.t.Helper()
	pod := s.pod(request, volume)
	var log bytes.Buffer
	err := sdk.Run(ctx, pod.Root, provisioner{root: pod.Root, log: &log})
	code := sdk.Report(pod.Root, err, &log)
	s.remember(pod.Message(s.t) + log.String())
	return result{code, pod.Message(s.t), pod.Location(s.t), log.String()}
}

// pod has the credentials mounted.
func (s *stage) pod(request sdk.Request, volume *corev1.PersistentVolume) sdktest.Pod {
	s.t.Helper()
	pod := s.cluster.newPod(s.t, request, volume)
	dir := filepath.Join(pod.Root, contract.SecretsDir, "cinder-cloud-config")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	for file, text := range s.config {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return pod
}

// want checks code and message; a message that ends with … is the beginning.
func (r result) want(t testing.TB, code int, message string) {
	t.Helper()
	got := r.message
	if begin, cut := strings.CutSuffix(message, "…"); cut {
		got, message = got[:min(len(got), len(begin))], begin
	}
	if r.code != code || got != message {
		t.Errorf("ended with %d: %s\nwant %d: %s\n%s", r.code, r.message, code, message, r.log)
	}
}

// wantOne checks that there is exactly what a provision leaves.
func (s *stage) wantOne() {
	s.t.Helper()
	v := s.cinder.Volume(name)
	if v.Status != "in-use" || len(v.Attachments) != 1 || v.Attachments[0].Instance != "" || len(s.cinder.Volumes()) != 1 {
		s.t.Errorf("in cinder there is\n%s", s.cinder.Volumes())
	}
	if s.cluster.Volume(name) == nil || len(s.cluster.Secrets()) != 1 {
		s.t.Errorf("in the cluster there is volume %v and %d secrets", s.cluster.Volume(name), len(s.cluster.Secrets()))
	}
	if secret := s.cluster.Secrets()[name]; secret != nil && string(secret.Data["node.session.auth.password"]) != v.CHAPPassword {
		s.t.Error("the secret does not have cinder's password")
	}
}

// wantNothing checks that nothing is left but the PersistentVolume, which the dispatcher removes.
func (s *stage) wantNothing() {
	s.t.Helper()
	if len(s.cinder.Volumes()) > 0 || len(s.cluster.Secrets()) != 0 {
		s.t.Errorf("there is left\n%s%d secrets", s.cinder.Volumes(), len(s.cluster.Secrets()))
	}
}

// outputs are what all tests printed, and secrets what must not be in it.
var leaks struct {
	sync.Mutex
	outputs []string
	secrets []string
}

func (s *stage) remember(output string) {
	leaks.Lock()
	defer leaks.Unlock()
	leaks.outputs = append(leaks.outputs, output)
	if s.cinder == nil {
		return // it is a real one
	}
	for _, secret := range s.cinder.Secrets() {
		if secret != "" && !slices.Contains(leaks.secrets, secret) {
			leaks.secrets = append(leaks.secrets, secret)
		}
	}
}

// TestMain looks for secrets in everything that the tests and the programs in them printed.
func TestMain(m *testing.M) {
	os.Setenv("FLEX_KUBE_API", listener.URL)
	stdout, stderr := os.Stdout, os.Stderr
	read, write, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	os.Stdout, os.Stderr = write, write
	var printed bytes.Buffer
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.MultiWriter(stdout, &printed), read)
		close(done)
	}()
	code := m.Run()
	write.Close()
	<-done
	os.Stdout, os.Stderr = stdout, stderr
	for _, output := range append(leaks.outputs, printed.String()) {
		for _, secret := range leaks.secrets {
			if strings.Contains(output, secret) {
				fmt.Fprintf(os.Stderr, "FAIL: a secret was printed:\n%s\n", strings.ReplaceAll(output, secret, "[secret]"))
				code = 1
			}
		}
	}
	os.Exit(code)
}

func asJSON(t testing.TB, object any) string {
	t.Helper()
	data, err := json.MarshalIndent(object, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

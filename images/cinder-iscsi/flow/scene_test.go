package flow

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cloud"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cluster"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/apiserver"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

const (
	// name and claimUID are those of sdktest's requests, and host is what Cinder knows the attachment by.
	claimUID = "8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11"
	name     = "pvc-" + claimUID
	host     = "k8s-8b6e7a3e0d9f4a539d"
	// id is that of volumes which are there before a run.
	id      = "dae46dbd-d712-48fe-af72-de0872d24140"
	project = "11111111111111111111111111111111"
	token   = "the-pod"
)

// The calls, as the fake names them.
const (
	callFind      = "GET /volumes/detail"
	callShow      = "GET /volumes/{id}"
	callCreate    = "POST /volumes"
	callReserve   = "os-reserve"
	callConnect   = "os-initialize_connection"
	callAttach    = "os-attach"
	callTerminate = "os-terminate_connection"
	callDetach    = "os-detach"
	callUnreserve = "os-unreserve"
	callDelete    = "DELETE /volumes/{id}"
	callExtend    = "os-extend"
	callBegun     = "GET /attachments/detail"
	callForget    = "DELETE /attachments/{id}"
	callTypes     = "GET /types"
	callDefault   = "GET /types/default"
	callMessages  = "GET /messages"

	callRecords  = "GET /attachments/detail"
	callBegin    = "POST /attachments"
	callUpdate   = "PUT /attachments/{id}"
	callComplete = "os-complete"

	callSnapshots      = "GET /snapshots/detail"
	callShowSnapshot   = "GET /snapshots/{id}"
	callSnapshot       = "POST /snapshots"
	callDeleteSnapshot = "DELETE /snapshots/{id}"
)

// scene is a request, with a Cinder and a cluster that are in the test's process.
type scene struct {
	t          *testing.T
	cinder     *fake.Cinder
	cluster    *apiserver.Server
	request    contract.Request
	parameters map[string]string
	properties map[string]string
	pv         *corev1.PersistentVolume
	// region is that of the credentials.
	region string
	// connect and setLocation fail with these errors.
	connect, setLocation error

	// Of the last run: its location, its log, and how many connections it left open.
	location string
	log      bytes.Buffer
	open     int
}

// play is for one scene. Its time is virtual: what the flow waits for takes none.
func play(t *testing.T, act func(*scene), options ...fake.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, cinder: fake.NewInProcess(t, 1, options...), request: sdktest.Provision(nil),
			cluster: apiserver.New("create secrets", "update secrets", "delete secrets", "list nodes")}
		s.cluster.Admit(token, "")
		s.request.TimeoutSeconds = 60
		act(s)
	})
}

// playEach plays a scene for each case.
func playEach[T any](t *testing.T, cases map[string]T, act func(*scene, T), options ...fake.Option) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { play(t, func(s *scene) { act(s, c) }, options...) })
	}
}

// trial is a run that fails, or succeeds where err is empty, and the calls to Cinder that it makes.
type trial struct {
	prepare func(*scene)
	code    int
	err     string
	calls   []string
}

// tryEach plays a scene for each trial, after setup.
func tryEach(t *testing.T, setup func(*scene), run func(*scene) error, trials map[string]trial) {
	t.Helper()
	playEach(t, trials, func(s *scene, c trial) {
		setup(s)
		if c.prepare != nil {
			c.prepare(s)
		}
		s.want(run(s), c.code, c.err)
		s.wantCalls(c.calls...)
	})
}

// refuse lets Cinder answer a call so, as a preparation.
func refuse(call string, status int, message string) func(*scene) {
	return func(s *scene) { s.cinder.Fault(fake.On(call).Refuse(status, message)) }
}

// pvOf is the claim's PersistentVolume with that ID of Cinder's.
func pvOf(id string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{}
	pv.Name, pv.Annotations = name, map[string]string{AnnVolumeID: id}
	return pv
}

// flow is a run's.
func (s *scene) flow() *Flow {
	s.t.Helper()
	s.location, s.open = "", 0
	s.log.Reset()
	f := &Flow{Request: s.request, NodeDriver: "dispatcher.flex-provisioner.io", Log: slog.New(slog.NewTextHandler(&s.log, nil))}
	var err error
	if f.Parameters, err = parameters.Parse(s.parameters); err != nil {
		s.t.Fatal(err)
	}
	if f.Properties, err = parameters.ParseProperties(s.properties); err != nil {
		s.t.Fatal(err)
	}
	config := &rest.Config{Host: "http://kubernetes.example", BearerToken: token, QPS: -1, Transport: fake.InProcess{Handler: s.cluster}}
	if f.Cluster, err = cluster.NewForConfig(config, contract.ProvisionersNamespace); err != nil {
		s.t.Fatal(err)
	}
	f.SetLocation = func(location string) error { s.location = location; return s.setLocation }
	f.Connect = func(ctx context.Context) (*cloud.Client, error) {
		if s.connect != nil {
			return nil, s.connect
		}
		s.open++
		config := cloud.Config{Endpoint: s.cinder.Endpoint() + "/", Region: s.region, User: "admin", Project: project, Transport: line{s.cinder.Transport(), s}}
		return config.Connect(ctx)
	}
	return f
}

// line is a connection to Cinder.
type line struct {
	http.RoundTripper
	s *scene
}

func (l line) CloseIdleConnections() { l.s.open-- }

// context is that of a run, which ends before the pod's deadline.
func (s *scene) context() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), 50*time.Second)
	s.t.Cleanup(cancel)
	return ctx
}

func (s *scene) provision() (*sdk.Volume, error) {
	s.t.Helper()
	volume, err := s.flow().Provision(s.context())
	if (volume == nil) != (err != nil) {
		s.t.Errorf("volume %v, error %v", volume, err)
	}
	return volume, err
}

// made is what a provision made that has to succeed, as the PersistentVolume, which is also in s.pv. The calls so far are forgotten.
func (s *scene) made() *corev1.PersistentVolume {
	s.t.Helper()
	made, err := s.provision()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cinder.ForgetCalls()
	s.pv = pvOf(made.Annotations[AnnVolumeID])
	s.pv.Annotations, s.pv.Spec.PersistentVolumeSource = made.Annotations, made.Source
	return s.pv
}

// delete is an undo where pv is nil.
func (s *scene) delete(pv *corev1.PersistentVolume) error {
	s.t.Helper()
	return s.flow().Delete(s.context(), pv)
}

// expand asks for so many GiB.
func (s *scene) expand(pv *corev1.PersistentVolume, size int64) error {
	s.t.Helper()
	s.request.SizeBytes = size * gib
	return s.flow().Expand(s.context(), pv)
}

// there puts a volume of the claim there, as one that an earlier run left.
func (s *scene) there(v fake.Volume) fake.Volume {
	v.Name, v.Project, v.Metadata = name, project, map[string]string{metaClaimUID: claimUID}
	v.Size = max(v.Size, 10)
	if v.ID == "" {
		v.ID = id
	}
	return s.cinder.AddVolume(v)
}

// attached is our attachment.
func attached() []fake.Attachment {
	return []fake.Attachment{{Host: host, Device: "/kubernetes/" + name}}
}

// want checks an error's exit code and text. A text that ends with … is the beginning.
func (s *scene) want(err error, code int, want string) {
	s.t.Helper()
	got := text(err)
	if begin, cut := strings.CutSuffix(want, "…"); cut {
		got, want = got[:min(len(got), len(begin))], begin
	}
	if sdk.ExitCode(err) != code || got != want {
		s.t.Errorf("ended with %d: %v\nwant %d: %s", sdk.ExitCode(err), err, code, want)
	}
	if s.open != 0 {
		s.t.Errorf("it left %d connections open", s.open)
	}
}

// wantCalls checks the calls to Cinder since they were last asked for.
func (s *scene) wantCalls(want ...string) {
	s.t.Helper()
	if got := s.cinder.Calls().Ops(); !slices.Equal(got, want) {
		s.t.Errorf("it called\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
	s.cinder.ForgetCalls()
}

// wantVolumes checks the volumes in Cinder, each by its state, with a star for each attachment: "in-use *".
func (s *scene) wantVolumes(want ...string) {
	s.t.Helper()
	var got []string
	for _, v := range s.cinder.Volumes() {
		got = append(got, strings.TrimSpace(v.Status+" "+strings.Repeat("*", len(v.Attachments))))
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("in cinder there is %q, want %q", got, want)
	}
}

// wantSecrets checks how many there are.
func (s *scene) wantSecrets(want int) {
	s.t.Helper()
	if got := len(s.cluster.Secrets()); got != want {
		s.t.Errorf("there are %d secrets, want %d", got, want)
	}
}

// refuseKubernetes lets the API server answer calls such as "DELETE secrets" with an error.
func (s *scene) refuseKubernetes(call string) {
	s.cluster.SetFault(func(_ int, this string) apiserver.Fault {
		if this != call {
			return apiserver.Fault{}
		}
		return apiserver.Fault{Code: http.StatusForbidden, Reason: "Forbidden", Message: "no"}
	})
}

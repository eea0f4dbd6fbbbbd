//go:build integration

package likeness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/dispatcher"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	double "github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// schedules are what happens around the dispatcher, by name. Each is played to its end at either API server.
var schedules = []struct {
	name string
	do   func(*play)
}{
	{"served-and-deleted", func(p *play) {
		p.asks()
		p.serve(0)
		p.podsGo()
		p.givesUp()
		p.phase("Released")
		p.remove()
		p.volumeGoes()
		p.podsGo()
	}},
	{"fails-once", func(p *play) {
		p.asks()
		first := p.awaits(contract.Provision, 0)
		p.runs(first)
		p.ends(first, 1)
		p.serve(1)
		p.podsGo()
	}},
	{"fails-until-the-configmap-changes", func(p *play) {
		p.asks()
		first := p.awaits(contract.Provision, 0)
		p.runs(first)
		p.ends(first, 64)
		p.waits(true)
		p.configures("c")
		p.serve(1)
		p.waits(false)
		p.podsGo()
	}},
	{"given-up-while-it-runs", func(p *play) {
		p.asks()
		pod := p.awaits(contract.Provision, 0)
		p.runs(pod)
		p.givesUp()
		p.ends(pod, 1)
		p.remove()
		p.podsGo()
	}},
	{"given-up-before-it-has-a-node", func(p *play) {
		p.asks()
		p.awaits(contract.Provision, 0)
		p.givesUp()
		p.podsGo()
	}},
	{"too-small", func(p *play) {
		p.asks()
		pod := p.awaits(contract.Provision, 0)
		p.runs(pod)
		p.makes(pod, "1Mi")
		p.ends(pod, 0)
		p.remove()
		p.volumeGoes()
		p.serve(1)
		p.podsGo()
	}},
	{"grows", func(p *play) {
		p.asks()
		p.serve(0)
		p.podsGo()
		p.grows("2Gi")
		failed := p.awaits(contract.Expand, 0)
		p.runs(failed)
		p.ends(failed, 1)
		pod := p.awaits(contract.Expand, 1)
		p.runs(pod)
		p.ends(pod, 0)
		p.has("2Gi")
		p.podsGo()
	}},
	{"answers-are-lost", func(p *play) {
		p.fails("create pods", fault{code: 504, after: true})
		p.asks()
		pod := p.awaits(contract.Provision, 0)
		p.runs(pod)
		p.fails("patch pods", fault{code: 500, after: true})
		p.fails("delete pods", fault{after: true})
		p.makes(pod, "1Gi")
		p.binds()
		p.ends(pod, 0)
		p.podsGo()
	}},
	{"calls-fail", func(p *play) {
		p.asks()
		first := p.awaits(contract.Provision, 0)
		p.fails("get persistentvolumes", fault{code: 500})
		p.fails("list pods", fault{code: 503})
		p.fails("create pods", fault{code: 500}, fault{})
		p.runs(first)
		p.ends(first, 1)
		p.fails("patch pods "+p.podName(contract.Provision, 1), fault{code: 409}) // which patch of the first pod is next is not certain
		p.serve(1)
		p.podsGo()
	}},
	{"watches-are-cut-and-history-is-gone", func(p *play) {
		p.asks()
		first := p.awaits(contract.Provision, 0)
		p.runs(first)
		p.forgets()
		p.ends(first, 64)
		p.serve(1) // at once, since the ConfigMap has changed: its pod has the new property
		p.podsGo()
	}},
	{"deleted-by-hand", func(p *play) {
		p.asks()
		pod := p.awaits(contract.Provision, 0)
		p.runs(pod)
		p.must("delete pod", p.client.CoreV1().Pods(pod.Namespace).Delete(p.t.Context(), pod.Name, metav1.DeleteOptions{}))
		p.ends(pod, 1) // by itself, so that nothing can be under way
		p.serve(1)
		p.podsGo()
	}},
}

// serve is an attempt that goes well.
func (p *play) serve(n int) {
	p.t.Helper()
	pod := p.awaits(contract.Provision, n)
	p.runs(pod)
	p.makes(pod, "1Gi")
	p.binds()
	p.ends(pod, 0)
}

// remove is a first delete that goes well.
func (p *play) remove() {
	p.t.Helper()
	pod := p.awaits(contract.Delete, 0)
	p.runs(pod)
	p.ends(pod, 0)
}

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

func TestLikeness(t *testing.T) {
	// ConfigMaps come straight from etcd, so that what it forgets is gone: the API server's own memory of it lasts longer.
	server, err := apiserver.Start(t.Context(), nil, "--watch-cache-sizes=configmaps#0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	memory := double.New()
	real, fake := server.Config(apiserver.Admin.Token()), &rest.Config{Host: "http://double", Transport: memory, QPS: -1}
	stages := map[string]*stage{}
	var runs []func()
	// All dispatchers are made before any client is at work: see dispatcher.New.
	for name, config := range map[string]*rest.Config{"real": real, "double": fake} {
		stages[name] = &stage{record: &record{faults: map[string][]fault{}, cut: make(chan struct{})}}
		runs = append(runs, stages[name].dispatcher(t, config))
		config = rest.CopyConfig(config)
		config.ContentType = "application/json"
		if stages[name].client, err = kubernetes.NewForConfig(config); err != nil {
			t.Fatal(err)
		}
	}
	stages["real"].compact = func() error { return compact(t.Context(), server.Etcd) }
	stages["double"].compact = func() error { memory.Compact(); return nil }
	for _, run := range runs {
		run()
	}
	if err := stages["real"].setUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Pods have their namespace as owner.
	if err := stages["double"].makeNamespaces(t.Context(), contract.ProvisionersNamespace); err != nil {
		t.Fatal(err)
	}
	if err := stages["double"].setUpClass(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range schedules {
		t.Run(s.name, func(t *testing.T) {
			plays := map[string]*play{}
			for name, stage := range stages {
				plays[name] = &play{stage: stage, t: t, name: s.name}
				s.do(plays[name])
			}
			real, double := plays["real"], plays["double"]
			if did := real.did(); !strings.Contains(did, "create -> ") || !strings.Contains(did, "get -> 200") {
				t.Errorf("the dispatcher read nothing, or made no pod:\n%s", did)
			}
			real.until("compare", func(context.Context) error { // the last call may be under way
				if real.did() != double.did() {
					return fmt.Errorf("only at the real API server the dispatcher did\n%s\nand only at the double\n%s",
						without(real.did(), double.did()), without(double.did(), real.did()))
				}
				return nil
			})
		})
	}
}

// without are the lines of a that b has not.
func without(a, b string) string {
	has := strings.Split(b, "\n")
	only := slices.DeleteFunc(strings.Split(a, "\n"), func(line string) bool { return slices.Contains(has, line) })
	return strings.Join(only, "\n")
}

// compact lets etcd forget all but the present.
func compact(ctx context.Context, etcd string) error {
	post := func(path, body string, into any) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, etcd+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", path, response.Status)
		}
		return json.NewDecoder(response.Body).Decode(into)
	}
	var now struct{ Header struct{ Revision string } }
	if err := post("/v3/kv/range", `{"key":"AA=="}`, &now); err != nil {
		return err
	}
	return post("/v3/kv/compaction", fmt.Sprintf(`{"revision":%q,"physical":true}`, now.Header.Revision), &struct{}{})
}

// dispatcher makes the real one for a stage, and returns what starts it.
func (s *stage) dispatcher(t *testing.T, config *rest.Config) (run func()) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		s.record.next = next
		return s.record
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	d, err := dispatcher.New(ctx, client, dispatcher.Options{ProvisionerName: contract.ProvisionerName, RecordKey: make([]byte, podspec.MinRecordKey), Registry: prometheus.NewRegistry(),
		SystemNamespace: contract.SystemNamespace, InsecureWithoutPolicies: true,
		Pods: podspec.Cluster{Namespace: contract.ProvisionersNamespace, KubeAPI: "https://10.96.0.1:443", FlexctlImage: "flexctl", ImageVolumes: true}})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Error("the dispatcher does not end")
			}
		})
	}
}

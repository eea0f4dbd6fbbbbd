package dispatcher

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// dispatch runs a dispatcher until stop is called.
func (p tenants) dispatch() (stop func()) { return p.dispatchWith(prometheus.NewRegistry()) }

func (p tenants) dispatchWith(registry *prometheus.Registry) (stop func()) {
	ctx, cancel := context.WithCancel(klog.NewContext(p.t.Context(), klog.New(p.log)))
	config := &rest.Config{Host: "http://apiserver", Transport: p.api, QPS: 500, Burst: 1000,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}}
	client := kubernetes.NewForConfigOrDie(config)
	var snapshots snapshotclient.Interface
	if p.snapshots {
		snapshots = snapshotclient.NewForConfigOrDie(config)
	}

	d, err := New(ctx, client, Options{Snapshots: snapshots, ProvisionerName: "p", RecordKey: dispatchertest.Key, Registry: registry, SystemNamespace: contract.SystemNamespace, InsecureWithoutPolicies: true,
		Pods: podspec.Cluster{Namespace: "ns", KubeAPI: "https://apiserver", FlexctlImage: "flexctl", ImageVolumes: true}})
	if err != nil {
		p.t.Fatal(err)
	}

	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })

	return func() {
		cancel()
		running.Wait()
	}
}

// inBubble runs a test in which time goes by at once.
func inBubble(t *testing.T, test func(p tenants)) {
	t.Helper()
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil // the default ones wait for a clock outside of the bubble
	defer func() { utilruntime.ErrorHandlers = handlers }()

	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New()
		test(tenants{t: t, server: server, api: server, ran: map[string]*corev1.Pod{}})
		time.Sleep(time.Hour) // for timers to come to their ends
	})
}

// copyOf makes a StorageClass that names another one as that whose ConfigMap it has.
func (p tenants) copyOf(of, name string, parameters ...string) {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "p", Parameters: map[string]string{contract.ParameterConfigFromClass: of}}
	for i := 0; i < len(parameters); i += 2 {
		class.Parameters[parameters[i]] = parameters[i+1]
	}

	p.create(apiserver.Classes, class)
}

func (p tenants) configMap(name, class string) {
	p.create(apiserver.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"storage-class": class, "type": "provisioner-config"}},
		Data: map[string]string{"plugin-name": "p", "image": "example.com/" + name, "service-account-name": "s", "zone": "west"}})
}

func (p tenants) remaining(resource string) int { return len(p.objects(resource)) }

// said are the messages of the events of a reason.
func (p tenants) said(reason string) (messages []string) {
	for _, event := range apiserver.List[*corev1.Event](p.server, apiserver.Events) {
		if event.Reason == reason {
			messages = append(messages, event.InvolvedObject.Name+": "+event.Message)
		}
	}

	slices.Sort(messages)

	return messages
}

// TestTwentyCopies copies a class under new names, as Kubernetes' own storage tests do, and deletes the copies before the volumes that
// were made by them. One ConfigMap serves all, before and after a restart of the dispatcher.
func TestTwentyCopies(t *testing.T) {
	inBubble(t, func(p tenants) {
		const copies = 20
		p.copyOf("silver", "silver") // names itself, so that copies find its ConfigMap
		p.configMap("custom-provisioner", "silver")
		stop := p.dispatch()
		p.play(10 * time.Second)
		for i := range copies {
			name := fmt.Sprintf("volume-%d-e2e-sc", i)
			p.copyOf("silver", name, "pool", fmt.Sprint("pool-", i))
			p.claim(name, name)
		}

		p.play(time.Minute)
		asked := p.asked(contract.Provision)
		for i := range copies {
			name := fmt.Sprintf("volume-%d-e2e-sc", i)
			claim, _ := apiserver.Get[*corev1.PersistentVolumeClaim](p.server, apiserver.Claims, "team", name)
			if claim.Status.Phase != corev1.ClaimBound {
				t.Fatalf("claim %s is %s: %v", name, claim.Status.Phase, p.said("ProvisionerConfigMissing"))
			}

			volume, _ := apiserver.Get[*corev1.PersistentVolume](p.server, apiserver.Volumes, "", claim.Spec.VolumeName)
			if volume.Spec.StorageClassName != name {
				t.Errorf("the volume of %s has class %s", name, volume.Spec.StorageClassName)
			}

			want := fmt.Sprintf("example.com/custom-provisioner %s map[zone:west] map[pool:pool-%d]", name, i)
			if got := asked[string(claim.UID)]; got != want {
				t.Errorf("the pod of %s was asked %s, want %s", name, got, want)
			}
		}

		for _, o := range p.objects(apiserver.Classes) {
			if o.GetName() != "silver" {
				p.remove(apiserver.Classes, "", o.GetName())
			}
		}

		p.play(10 * time.Second)
		stop()
		stop = p.dispatch()
		p.play(10 * time.Second)
		before := map[string]string{}
		for _, claim := range p.objects(apiserver.Claims) {
			before[string(claim.GetUID())] = asked[string(claim.GetUID())]
			p.remove(apiserver.Claims, claim.GetNamespace(), claim.GetName())
		}

		p.play(5 * time.Minute)
		for uid, got := range p.asked(contract.Delete) {
			if got != before[uid] {
				t.Errorf("a delete pod was asked %s, want %s", got, before[uid])
			}

			delete(before, uid)
		}

		if left := p.remaining(apiserver.Volumes); left > 0 || len(before) > 0 {
			t.Errorf("%d volumes are left, and %d were not removed by a pod: %v", left, len(before), p.said("ProvisionerConfigMissing"))
		}

		stop()
	})
}

// asked is what the pods of an operation were asked, by the claim's UID.
func (p tenants) asked(op contract.Operation) map[string]string {
	asked := map[string]string{}
	for _, pod := range p.ran {
		request, err := podspec.RequestOf(pod)
		if err != nil {
			p.t.Fatal(err)
		}

		if request.Operation == op {
			asked[request.Claim.UID] = fmt.Sprint(pod.Spec.Containers[0].Image, " ", request.StorageClass, " ", request.Properties, " ", request.Parameters)
		}

		if strings.Contains(fmt.Sprint(pod), contract.ParameterConfigFromClass) {
			p.t.Errorf("pod %s shows %s", pod.Name, contract.ParameterConfigFromClass)
		}
	}

	return asked
}

// TestWrongClass: what a class names wrongly is said on its claims, with the remedy, and goes on when it is mended.
func TestWrongClass(t *testing.T) {
	const key = contract.ParameterConfigFromClass
	for _, c := range []struct {
		name string
		make func(p tenants)
		want string
		mend func(p tenants)
	}{
		{"no ConfigMap yet", func(p tenants) { p.copyOf("gold", "copy") },
			`StorageClass "copy" has parameter ` + key + `: gold, but namespace ns has no provisioner ConfigMap for class "gold": an administrator has to create one there with the labels storage-class and type=provisioner-config`,
			func(p tenants) { p.configMap("gold", "gold") }},
		{"a chain", func(p tenants) { p.copyOf("silver", "gold"); p.configMap("silver", "silver"); p.copyOf("gold", "copy") },
			`StorageClass "copy" has parameter ` + key + `: gold, but namespace ns has no provisioner ConfigMap for class "gold": an administrator has to create one there with the labels storage-class and type=provisioner-config; ` +
				`that class has the ConfigMap of class "silver": create StorageClass "copy" again, and name that one`,
			func(p tenants) { p.remove(apiserver.Classes, "", "copy"); p.copyOf("silver", "copy") }},
		{"a circle", func(p tenants) { p.copyOf("copy", "gold"); p.copyOf("gold", "copy") },
			`StorageClass "copy" has parameter ` + key + `: gold, but namespace ns has no provisioner ConfigMap for class "gold": an administrator has to create one there with the labels storage-class and type=provisioner-config; ` +
				`that class has the ConfigMap of class "copy": create StorageClass "copy" again, and name that one`,
			func(p tenants) { p.configMap("gold", "gold") }},
		{"no name", func(p tenants) { p.copyOf("Gold*", "copy") },
			`StorageClass "copy": parameters[` + key + `]: Invalid value: "Gold*": is no name of a StorageClass; create the StorageClass again with the name of one that has a ConfigMap`,
			func(p tenants) {
				p.remove(apiserver.Classes, "", "copy")
				p.configMap("gold", "gold")
				p.copyOf("gold", "copy")
			}},
		{"misspelled", func(p tenants) {
			p.configMap("copy", "copy")
			p.copyOf("copy", "copy", "flex-provisioner.io/config", "gold")
		},
			`StorageClass "copy": parameters[flex-provisioner.io/config]: Forbidden: of the parameters flex-provisioner.io/ there is only ` + key + `; create the StorageClass again without this one`,
			func(p tenants) { p.remove(apiserver.Classes, "", "copy"); p.copyOf("copy", "copy") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(p tenants) {
				stop := p.dispatch()
				c.make(p)
				p.play(10 * time.Second)
				p.claim("data", "copy")
				p.play(time.Minute)
				if got := p.said("ProvisionerConfigMissing"); !slices.Equal(got, []string{"data: " + c.want}) {
					t.Errorf("said %q,\nwant %q", got, c.want)
				}

				c.mend(p)
				p.play(time.Minute)
				if n := p.remaining(apiserver.Volumes); n != 1 {
					t.Errorf("mended, there are %d volumes", n)
				}

				stop()
			})
		})
	}
}

// TestConfigMapOfSeveral: a ConfigMap whose own class does not exist is no mistake while another class has it, and one whose class has
// another's is.
func TestConfigMapOfSeveral(t *testing.T) {
	inBubble(t, func(p tenants) {
		stop := p.dispatch()
		p.copyOf("silver", "silver-retain")
		p.configMap("shared", "silver")
		p.copyOf("silver", "gold")
		p.configMap("unused", "gold")
		p.configMap("lonely", "bronze")
		p.play(time.Minute)
		want := []string{`unused: StorageClass "gold" has parameter ` + contract.ParameterConfigFromClass + `: silver, so that nothing uses this ConfigMap: remove it, or create the StorageClass again without the parameter`}
		if got := p.said("ConfigNotUsed"); !slices.Equal(got, want) {
			t.Errorf("unused are %q, want %q", got, want)
		}

		want = []string{`lonely: StorageClass "bronze" does not exist: create it with provisioner p, or mend the label storage-class`}
		if got := p.said("ClassNotFound"); !slices.Equal(got, want) {
			t.Errorf("without a class are %q, want %q", got, want)
		}

		p.remove(apiserver.Classes, "", "silver-retain")
		p.remove(apiserver.Classes, "", "gold")
		p.play(time.Minute)
		if got := p.said("ClassNotFound"); len(got) != 3 {
			t.Errorf("in the end %q are without a class, want all three", got)
		}

		stop()
	})
}

// TestVolumeOfAnotherCopy: the allow-list may let an account make volumes of all classes of a prefix. The dispatcher still takes only one
// that names the claim's own class, and has any other removed by the claim's own provisioner.
func TestVolumeOfAnotherCopy(t *testing.T) {
	inBubble(t, func(p tenants) {
		stop := p.dispatch()
		p.configMap("shared", "silver")
		p.copyOf("silver", "silver-1.strays")
		p.copyOf("gold", "silver-of-another-tenant")
		p.configMap("others", "gold")
		p.claim("data", "silver-1.strays")
		p.play(10 * time.Second)
		stop()
		stop = p.dispatch()
		p.play(time.Minute)
		claim, _ := apiserver.Get[*corev1.PersistentVolumeClaim](p.server, apiserver.Claims, "team", "data")
		if claim.Spec.VolumeName != "" {
			t.Errorf("the claim was given volume %s", claim.Spec.VolumeName)
		}

		want := `data: volume pvc-` + string(claim.UID) + ` does not fit the claim: spec.storageClassName is "silver-of-another-tenant", not "silver-1.strays" (pod ns/prov-` + string(claim.UID) + `-0)`
		if got := p.said("VolumeDoesNotFit"); len(got) == 0 || got[0] != want {
			t.Errorf("said %q, want %q", got, want)
		}

		removed := p.asked(contract.Delete)
		if got, want := removed[string(claim.UID)], "example.com/shared silver-1.strays map[zone:west] map[]"; len(removed) != 1 || got != want {
			t.Errorf("removed by %v, want %s", removed, want)
		}

		stop()
	})
}

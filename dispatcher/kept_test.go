package dispatcher

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// TestBrokenConfigOutlivesRestarts: a ConfigMap that was broken by an edit leaves its last good version in force, in every dispatcher
// that comes after, and that is said every hour. Of each ConfigMap one version is kept, and written once.
func TestBrokenConfigOutlivesRestarts(t *testing.T) {
	inBubble(t, func(p tenants) {
		p.copyOf("silver", "silver")
		p.configMap("one", "silver")
		stop := p.dispatch()
		p.play(5 * time.Second)
		first := p.revision()
		p.edit("one", map[string]string{"zone": "east"})
		p.play(5 * time.Second)
		second := p.revision()
		if first.UID == second.UID || second.Revision != first.Revision+1 {
			t.Errorf("the changed ConfigMap is kept as %s, revision %d, after %s, revision %d", second.Name, second.Revision, first.Name, first.Revision)
		}

		stop()
		stop = p.dispatch()
		p.play(5 * time.Second)
		if now := p.revision(); now.UID != second.UID || now.ResourceVersion != second.ResourceVersion {
			t.Errorf("the same version was written again: %s", now.Name)
		}

		p.edit("one", map[string]string{"timeout": "never", "zone": "north"})
		p.play(5 * time.Second)
		for range 2 { // the second was never told of a good one by its predecessor
			stop()
			registry := prometheus.NewRegistry()
			stop = p.dispatchWith(registry)
			p.play(5 * time.Second)
			p.outdated(registry, 1)
		}

		p.claim("a", "silver")
		p.play(10 * time.Second)
		p.askedFor("a", "example.com/one silver map[zone:east] map[]")
		told := p.told("ConfigOutdated")
		p.play(61 * time.Minute)
		if again := p.told("ConfigOutdated"); again <= told {
			t.Errorf("after an hour the event was written %d times, %d before", again, told)
		}

		if said := p.said("ConfigOutdated"); !strings.HasPrefix(said[0], `one: class "silver" runs on version `) || !strings.HasSuffix(said[0], " has no effect until what is wrong is corrected") {
			t.Errorf("the event says %q", said[0])
		}

		stop()
		p.edit("one", map[string]string{"timeout": "1m"})
		registry := prometheus.NewRegistry()
		stop = p.dispatchWith(registry)
		p.play(5 * time.Second)
		p.outdated(registry, 0)
		if now := p.revision(); now.UID == second.UID {
			t.Error("the mended ConfigMap is not kept")
		}

		p.claim("b", "silver")
		p.play(10 * time.Second)
		p.askedFor("b", "example.com/one silver map[zone:north] map[]")
		stop()
	})
}

// TestKilledWhileKeeping: a dispatcher was killed after it had kept a version and before it deleted the one before. The later one counts,
// and goes on alone. One that somebody deletes is kept anew.
func TestKilledWhileKeeping(t *testing.T) {
	inBubble(t, func(p tenants) {
		p.copyOf("silver", "silver")
		p.configMap("one", "silver")
		stop := p.dispatch()
		p.play(5 * time.Second)
		first := p.revision()
		p.edit("one", map[string]string{"zone": "east"})
		p.play(5 * time.Second)
		stop()
		again := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: first.Name, Labels: first.Labels, OwnerReferences: first.OwnerReferences},
			Data: first.Data, Revision: first.Revision}
		p.create("controllerrevisions", again)
		good := p.edit("one", map[string]string{"timeout": "never"})

		stop = p.dispatch()
		p.claim("a", "silver")
		p.play(10 * time.Second)
		p.askedFor("a", "example.com/one silver map[zone:east] map[]")
		p.edit("one", good)
		p.play(5 * time.Second)
		kept := p.revision()
		p.remove("controllerrevisions", "ns", kept.Name)
		p.play(5 * time.Second)
		if now := p.revision(); now.UID == kept.UID || now.Name != kept.Name {
			t.Errorf("kept is %s, want %s anew", now.Name, kept.Name)
		}

		stop()
	})
}

// TestKeptVersionsOfOthers: what is kept of another ConfigMap is not taken, also where that one had the name, and the last good version
// goes with its ConfigMap.
func TestKeptVersionsOfOthers(t *testing.T) {
	inBubble(t, func(p tenants) {
		p.copyOf("silver", "silver")
		p.configMap("one", "silver")
		stop := p.dispatch()
		p.play(5 * time.Second)
		kept := p.revision()
		stop()
		p.remove(apiserver.ConfigMaps, "ns", "one")
		p.configMap("one", "silver")
		p.edit("one", map[string]string{"timeout": "never"})
		forged := kept.DeepCopy()
		forged.Name, forged.OwnerReferences[0].Name = "one-forged", "one"
		forged.ResourceVersion, forged.UID = "", ""
		p.create("controllerrevisions", forged)
		stop = p.dispatch()
		p.play(5 * time.Second)
		p.claim("a", "silver")
		p.play(30 * time.Second)
		if said := p.said("ProvisionerConfigMissing"); len(said) != 1 || len(p.asked(contract.Provision)) > 0 {
			t.Errorf("a claim of the class is told %q, and pods are asked %v", said, p.asked(contract.Provision))
		}

		stop()
	})
}

// TestTooLargeToKeep: of a ConfigMap that has grown too large no version is kept, an older one neither: after a restart it would count as
// the last good one.
func TestTooLargeToKeep(t *testing.T) {
	inBubble(t, func(p tenants) {
		p.copyOf("silver", "silver")
		p.configMap("one", "silver")
		stop := p.dispatch()
		p.play(5 * time.Second)
		p.revision()
		script := strings.Repeat(`"`, 64<<10) // as JSON twice as long, and so are line breaks
		large := map[string]string{"provision": script, "delete": script, "expand": script}
		for key, value := range map[string]string{"timeout": "1m", "start-timeout": "1m", "failed-pod-ttl": "0s", "max-concurrent": "1", "delete-limit": "1",
			"image-pull-policy": "Always", "run-as-user": "1000", "privileged": "false", "host-network": "false", "show-logs": "false", "resources": "{requests: {cpu: 1m}}",
			"node-local": "false", "priority-class-name": "x", "image-pull-secrets": "x", "access-modes": "ReadWriteOnce", "volume-modes": "Filesystem",
			"claim-sizes": "1Gi-", "secrets": "x", "pod-labels": "a=b", "pod-annotations": "a=b", "node-selector": "a=b", "host-path": "/x", "image": "x", "service-account-name": "x"} {
			large[key] = value + strings.Repeat("\n", 16000)
		}

		p.edit("one", large)
		p.play(5 * time.Second)
		if said := p.said("ConfigOutdated"); len(said) > 0 {
			t.Errorf("the ConfigMap has faults: %q", said)
		}

		if list := apiserver.List[*appsv1.ControllerRevision](p.server, "controllerrevisions"); len(list) > 0 {
			t.Errorf("%d versions are kept", len(list))
		}

		stop()
	})
}

func (p tenants) outdated(registry *prometheus.Registry, want float64) {
	p.t.Helper()
	families, err := registry.Gather()
	if err != nil {
		p.t.Fatal(err)
	}

	for _, family := range families {
		if family.GetName() != "flex_provisioner_config_outdated" {
			continue
		}

		if m := family.Metric; len(m) != 1 || m[0].Label[0].GetValue() != "silver" || m[0].Gauge.GetValue() != want {
			p.t.Errorf("the metric has %v, want %v of silver alone", m, want)
		}

		return
	}

	p.t.Error("there is no metric")
}

// revision is the only one that is kept.
func (p tenants) revision() *appsv1.ControllerRevision {
	p.t.Helper()
	list := apiserver.List[*appsv1.ControllerRevision](p.server, "controllerrevisions")
	if len(list) != 1 || list[0].Labels[configmaps.LabelType] != configmaps.TypeProvisioner {
		p.t.Fatalf("%d versions are kept, want one: %v", len(list), list)
	}

	return list[0]
}

// edit changes keys of a ConfigMap and returns what takes that back.
func (p tenants) edit(name string, changes map[string]string) (back map[string]string) {
	back = map[string]string{}
	p.server.Mutate(apiserver.ConfigMaps, "ns", name, func(o apiserver.Object) {
		data := o.(*corev1.ConfigMap).Data
		for key, value := range changes {
			back[key] = data[key]
			if data[key] = value; value == "" {
				delete(data, key)
			}
		}
	})

	return back
}

func (p tenants) askedFor(claim, want string) {
	p.t.Helper()
	c, _ := apiserver.Get[*corev1.PersistentVolumeClaim](p.server, apiserver.Claims, "team", claim)
	if got := p.asked(contract.Provision)[string(c.UID)]; got != want {
		p.t.Errorf("the pod of claim %s was asked %q, want %q; events %v", claim, got, want, slices.Concat(p.said("ProvisionerConfigMissing"), p.said("ConfigInvalid")))
	}
}

// told is how often events of a reason were written.
func (p tenants) told(reason string) (n int32) {
	for _, event := range apiserver.List[*corev1.Event](p.server, apiserver.Events) {
		if event.Reason == reason {
			n += event.Count
		}
	}

	return n
}

// TestSecondConfigLeavesTheFirst: beside a second ConfigMap the first one stays in force, also in a dispatcher that comes later. It is no
// older version of itself.
func TestSecondConfigLeavesTheFirst(t *testing.T) {
	inBubble(t, func(p tenants) {
		p.copyOf("silver", "silver")
		p.configMap("one", "silver")
		stop := p.dispatch()
		p.play(5 * time.Second)
		p.configMap("two", "silver")
		p.play(5 * time.Second)
		stop()
		registry := prometheus.NewRegistry()
		stop = p.dispatchWith(registry)
		p.play(5 * time.Second)
		p.outdated(registry, 0)
		p.claim("a", "silver")
		p.play(10 * time.Second)
		p.askedFor("a", "example.com/one silver map[zone:west] map[]")
		if said := p.said("ConfigOutdated"); len(said) > 0 || len(p.said("ConfigDuplicate")) == 0 {
			t.Errorf("events say %q and %q", said, p.said("ConfigDuplicate"))
		}

		stop()
	})
}

package dispatcher

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/reader"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// remembered are the paths of all maps, lists and queues below v that are not empty, as far as types of the dispatcher's packages reach.
func remembered(v reflect.Value, at string, visited map[uintptr]bool) []string {
	if v.CanAddr() {
		v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem() // fields that are not exported can be read then
		switch o := v.Addr().Interface().(type) {
		case *sync.Map:
			var found []string
			o.Range(func(key, _ any) bool { found = append(found, fmt.Sprintf("%s has %v", at, key)); return false })

			return found
		case *sync.Mutex:
			return nil
		}
	}

	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		if v.Len() > 0 {
			return []string{fmt.Sprintf("%s has %d: %.300s", at, v.Len(), fmt.Sprint(v))}
		}
	case reflect.Interface:
		if queue, ok := v.Interface().(interface{ Len() int }); ok && queue.Len() > 0 {
			return []string{fmt.Sprintf("%s has %d", at, queue.Len())}
		}
	case reflect.Pointer:
		if !v.IsNil() && !visited[v.Pointer()] {
			visited[v.Pointer()] = true
			return remembered(v.Elem(), at, visited)
		}
	case reflect.Struct:
		if t := v.Type(); t.Name() != "" && !strings.HasPrefix(t.PkgPath(), reflect.TypeFor[Dispatcher]().PkgPath()) {
			return nil // caches, clients and metrics
		}

		var found []string
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name == "Options" || f.Type == reflect.TypeFor[reader.Reader]() { // what it was made with
				continue
			}

			found = append(found, remembered(v.Field(i), at+"."+v.Type().Field(i).Name, visited)...)
		}

		return found
	}

	return nil
}

// given is what a dispatcher is made with.
var given = map[string]bool{"options": true, "cache": true, "gate": true, "library": true}

// memoryOf is what a dispatcher remembers that serves nobody.
func memoryOf(t *testing.T, d *Dispatcher, registry *prometheus.Registry) []string {
	t.Helper()
	var found []string
	for i := range reflect.TypeFor[Dispatcher]().NumField() {
		if name := reflect.TypeFor[Dispatcher]().Field(i).Name; !given[name] {
			found = append(found, remembered(reflect.ValueOf(d).Elem().Field(i), name, map[uintptr]bool{})...)
		}
	}

	var gatherers prometheus.Gatherers
	unserved, counts := prometheus.NewRegistry(), d.recorder.Metrics.Library()
	unserved.MustRegister(counts.PersistentVolumeClaimProvisionTotal, counts.PersistentVolumeClaimProvisionFailedTotal, counts.PersistentVolumeClaimProvisionDurationSeconds,
		counts.PersistentVolumeDeleteTotal, counts.PersistentVolumeDeleteFailedTotal, counts.PersistentVolumeDeleteDurationSeconds)
	gatherers = append(gatherers, registry, unserved)
	families, err := gatherers.Gather()
	if err != nil {
		t.Fatal(err)
	}

	for _, family := range families {
		for _, m := range family.Metric {
			for _, label := range m.Label {
				if label.GetName() == "class" && label.GetValue() != "" { // the empty one stands for all that do not exist
					found = append(found, fmt.Sprintf("metric %s has class %s", family.GetName(), label.GetValue()))
				}
			}
		}
	}

	return found
}

// TestEverythingEnds: classes, ConfigMaps, claims and volumes come and go in any way that there is, and nothing of them is left in
// the dispatcher's memory. What a new field of the dispatcher holds is seen without a word here.
func TestEverythingEnds(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = nil // the default ones wait for a clock outside of the bubble
	defer func() { utilruntime.ErrorHandlers = handlers }()

	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.New(nil)))
		p, registry := tenants{t: t, server: apiserver.New()}, prometheus.NewRegistry()
		client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://apiserver", Transport: p.server, QPS: 500, Burst: 1000,
			ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}})
		d, err := New(ctx, client, Options{ProvisionerName: "p", RecordKey: dispatchertest.Key, Registry: registry, SystemNamespace: contract.SystemNamespace, InsecureWithoutPolicies: true,
			Pods: podspec.Cluster{Namespace: "ns", KubeAPI: "https://apiserver", FlexctlImage: "flexctl", ImageVolumes: true}})
		if err != nil {
			t.Fatal(err)
		}

		var running sync.WaitGroup
		running.Go(func() { _ = d.Run(ctx) })

		const each = 8
		for round := range 2 {
			kinds := map[string]map[string]string{"good": nil, "fails": nil, "hangs": nil, "invalid": {"timeout": "never"}, "narrow": {"max-concurrent": "1", "claim-sizes": "1Gi-2Gi"}}
			for kind, data := range kinds {
				p.class(fmt.Sprintf("%d.%s", round, kind), data)
			}

			p.copyOf(fmt.Sprintf("%d.good", round), fmt.Sprintf("%d.copy", round))
			kinds["copy"] = nil
			p.play(10 * time.Second)
			for kind := range kinds {
				for i := range each {
					p.claim(fmt.Sprintf("%s-%d", kind, i), fmt.Sprintf("%d.%s", round, kind))
				}
			}

			p.claim("nowhere", fmt.Sprintf("%d.none", round))
			p.play(2 * time.Minute)
			if found := memoryOf(t, d, registry); len(found) < 10 {
				t.Errorf("in the midst of it only this is remembered: %q", found)
			}

			for _, v := range p.objects(apiserver.Volumes) {
				p.server.Mutate(apiserver.Volumes, "", v.GetName(), func(o apiserver.Object) { o.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-25 * time.Hour))) })
			}

			p.create(apiserver.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: contract.StopDeletes}, Data: map[string]string{"reason": "x"}})
			p.play(time.Minute)
			for _, claim := range p.objects(apiserver.Claims) {
				p.remove(apiserver.Claims, claim.GetNamespace(), claim.GetName())
			}

			p.play(time.Minute)
			p.remove(apiserver.ConfigMaps, "ns", contract.StopDeletes)
			p.play(20 * time.Minute)
			if left := p.objects(apiserver.Volumes); len(left) > 0 {
				t.Fatalf("%d volumes are left", len(left))
			}

			for _, class := range p.objects(apiserver.Classes) {
				p.remove(apiserver.Classes, "", class.GetName())
			}

			for _, cm := range p.objects(apiserver.ConfigMaps) {
				p.remove(apiserver.ConfigMaps, "ns", cm.GetName())
			}

			p.play(time.Minute)
		}

		time.Sleep(3 * time.Hour)
		synctest.Wait()
		for _, what := range memoryOf(t, d, registry) {
			t.Error(what)
		}

		cancel()
		running.Wait()
		time.Sleep(time.Hour) // for timers to come to their ends
	})
}

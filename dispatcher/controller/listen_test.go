package controller

import (
	"slices"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
)

// TestListenSyncs: an informer has synced before its handlers have seen what it listed. A dispatcher that began by then would not count all pods
// of a class with max-concurrent.
func TestListenSyncs(t *testing.T) {
	server := apiserver.New()
	if _, err := server.Create(apiserver.Volumes, dispatchertest.Volume("fits retain")); err != nil {
		t.Fatal(err)
	}

	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://apiserver", Transport: server,
		ContentConfig: rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}})
	view, err := cache.New(client, "ns", "p", dispatchertest.Key)
	if err != nil {
		t.Fatal(err)
	}

	uid := func(obj any) ([]string, error) { return []string{string(obj.(metav1.Object).GetUID())}, nil }
	if err := view.Claims.AddIndexers(clientcache.Indexers{"uid": uid}); err != nil { // the library adds it
		t.Fatal(err)
	}

	controller, _ := idle(t)
	controller.Cache = view
	synced, err := controller.Listen()
	if err != nil {
		t.Fatal(err)
	}

	all := func() bool {
		return !slices.ContainsFunc(synced, func(has clientcache.InformerSynced) bool { return !has() })
	}

	controller.memory.mu.Lock() // the handler of the volume waits for it
	informers := view.Informers()
	for _, informer := range informers {
		go informer.RunWithContext(t.Context())
	}

	for _, informer := range informers {
		clientcache.WaitForCacheSync(t.Context().Done(), informer.HasSynced)
	}

	if all() {
		t.Error("the handlers have seen everything, while one of them waits")
	}

	controller.memory.mu.Unlock()
	for end := time.Now().Add(time.Minute); !all(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the handlers do not see everything")
		}
	}
}

package dispatcher

import (
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/util"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// byClaimUID indexes pods by the claim that they are for, and byDoomedClass by their class the volumes that wait to be
// deleted. byUID, claims by their UID, is the index that the library makes.
const (
	byDoomedClass = "doomed"
	byClaimUID    = "claim-uid"
	byUID         = "uid"
)

// caches are what the dispatcher knows of the cluster, kept up to date by watches.
type caches struct {
	pods, configMaps, stop, classes, troubles, volumes cache.SharedIndexInformer
	claims                                             *kickable
}

func newCaches(client kubernetes.Interface, namespace, provisioner string, key podspec.RecordKey) (*caches, error) {
	keep := informers.WithTransform((&lean{key: key}).transform)
	cluster := informers.NewSharedInformerFactoryWithOptions(client, 0, keep)
	ours := func(tweak func(*metav1.ListOptions)) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(client, 0,
			informers.WithNamespace(namespace), keep, informers.WithTweakListOptions(tweak))
	}
	labelled := func(selector string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) { o.LabelSelector = selector }
	}
	named := func(name string) func(*metav1.ListOptions) {
		return func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", name).String()
		}
	}
	warnings := fields.AndSelectors(fields.OneTermEqualSelector("involvedObject.kind", "Pod"), fields.OneTermEqualSelector("type", corev1.EventTypeWarning)).String()
	c := &caches{
		claims:     &kickable{SharedIndexInformer: cluster.Core().V1().PersistentVolumeClaims().Informer()},
		volumes:    cluster.Core().V1().PersistentVolumes().Informer(),
		classes:    cluster.Storage().V1().StorageClasses().Informer(),
		pods:       ours(labelled(contract.LabelClaimUID)).Core().V1().Pods().Informer(),
		configMaps: ours(labelled("type=provisioner-config")).Core().V1().ConfigMaps().Informer(),
		stop:       ours(named(contract.StopDeletes)).Core().V1().ConfigMaps().Informer(),
		troubles:   ours(func(o *metav1.ListOptions) { o.FieldSelector = warnings }).Core().V1().Events().Informer(),
	}
	if err := c.claims.AddIndexers(cache.Indexers{byOrigin: indexOrigin}); err != nil {
		return nil, fmt.Errorf("index claims: %w", err)
	}
	if err := c.pods.AddIndexers(cache.Indexers{byClaimUID: indexClaimUID}); err != nil {
		return nil, fmt.Errorf("index pods: %w", err)
	}
	if err := c.volumes.AddIndexers(cache.Indexers{byDoomedClass: indexDoomed(provisioner)}); err != nil {
		return nil, fmt.Errorf("index volumes: %w", err)
	}
	return c, nil
}

func indexClaimUID(obj any) ([]string, error) {
	return []string{obj.(*corev1.Pod).Labels[contract.LabelClaimUID]}, nil
}

func indexDoomed(provisioner string) cache.IndexFunc {
	return func(obj any) ([]string, error) {
		v := obj.(*corev1.PersistentVolume)
		if !awaitsDeletion(v) || v.Annotations[contract.AnnAllowDelete] == "true" || v.Annotations[contract.ProvisionedBy] != provisioner {
			return nil, nil
		}
		return []string{util.GetPersistentVolumeClass(v)}, nil
	}
}

func (c *caches) all() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{c.claims, c.volumes, c.classes, c.pods, c.configMaps, c.stop, c.troubles}
}

// expanding is the class of a bound claim that wants its volume expanded, or is marked so, if it is the provisioner's.
func (c *caches) expanding(uid, provisioner string) (class string, ok bool) {
	claims, err := c.claims.GetIndexer().ByIndex(byUID, uid)
	if err != nil || len(claims) == 0 || !unsettled(claims[0].(*corev1.PersistentVolumeClaim)) {
		return "", false
	}
	obj, ok, _ := c.volumes.GetStore().GetByKey(podspec.VolumeName(uid))
	if !ok || obj.(*corev1.PersistentVolume).Annotations[contract.ProvisionedBy] != provisioner {
		return "", false
	}
	return util.GetPersistentVolumeClass(obj.(*corev1.PersistentVolume)), true
}

// kickable is an informer that can tell its listeners again about an object that did not change. The library has no
// other door by which to be told that a claim needs a volume again.
type kickable struct {
	cache.SharedIndexInformer

	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
}

// AddEventHandlerWithResyncPeriod remembers the handler. Only the library listens by this method.
func (k *kickable) AddEventHandlerWithResyncPeriod(handler cache.ResourceEventHandler, resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	k.mu.Lock()
	k.handlers = append(k.handlers, handler)
	k.mu.Unlock()
	return k.SharedIndexInformer.AddEventHandlerWithResyncPeriod(handler, resync)
}

func (k *kickable) kick(obj any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, handler := range k.handlers {
		handler.OnUpdate(obj, obj)
	}
}

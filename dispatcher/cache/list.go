package cache

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// claimsOf lists and watches all claims. Most API servers stream what there is as events of the watch, one after the
// other. Others, such as 1.30, 1.31 and 1.33, answer with a list of all claims at once, unless they are asked for
// pages.
func claimsOf(client kubernetes.Interface, strip func(*corev1.PersistentVolumeClaim)) cache.ListerWatcher {
	claims := client.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll)

	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return listInPages(ctx, claims.List, options, strip)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return claims.Watch(ctx, options)
		},
	}, client)
}

// pageSize is how many claims are in memory before they are stripped. A claim may have 1.5 MB.
const pageSize = 50

// lister lists claims.
type lister func(ctx context.Context, options metav1.ListOptions) (*corev1.PersistentVolumeClaimList, error)

// listInPages lists all claims, and strips each page before it asks for the next one. An API server ignores the limit
// on a page where it answers from its cache, for version 0. So the newest version is asked for.
func listInPages(ctx context.Context, list lister, options metav1.ListOptions,
	strip func(*corev1.PersistentVolumeClaim)) (*corev1.PersistentVolumeClaimList, error) {
	options.ResourceVersion, options.ResourceVersionMatch, options.Limit = "", "", pageSize
	all := &corev1.PersistentVolumeClaimList{}
	for {
		page, err := list(ctx, options)
		if err != nil {
			return nil, err
		}

		for i := range page.Items {
			strip(&page.Items[i])
		}

		all.Items = append(all.Items, page.Items...)
		all.ListMeta = page.ListMeta
		if page.Continue == "" {
			return all, nil
		}

		options.Continue = page.Continue
	}
}

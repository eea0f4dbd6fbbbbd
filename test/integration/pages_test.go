//go:build integration

package integration

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// lists are the lists of claims that went through. Nothing is streamed, as by API servers that cannot.
type lists struct {
	http.RoundTripper
	mu    sync.Mutex
	sizes []int
}

func (l *lists) RoundTrip(r *http.Request) (*http.Response, error) {
	query := r.URL.Query()
	if query.Get("sendInitialEvents") == "true" {
		const refusal = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents is forbidden"}`
		return &http.Response{StatusCode: http.StatusUnprocessableEntity,
			Header: http.Header{"Content-Type": {"application/json"}},
			Body:   io.NopCloser(strings.NewReader(refusal)), Request: r}, nil
	}
	answer, err := l.RoundTripper.RoundTrip(r)
	if err != nil || query.Get("watch") == "true" || !strings.HasSuffix(r.URL.Path, "/persistentvolumeclaims") {
		return answer, err
	}
	body, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	answer.Body = io.NopCloser(bytes.NewReader(body))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sizes = append(l.sizes, len(body))
	return answer, err
}

// Tenants have 120 claims with large selectors, and the API server does not stream its lists. The dispatcher never has
// more than 50 of them in memory as they are, and keeps no selector.
func TestLargeClaims(t *testing.T) {
	const many, page = 120, 50
	own, err := apiserver.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop)
	admin, class := own.Client(apiserver.Admin.Token()), "theirs"
	var values []string
	for i := range 1000 {
		values = append(values, fmt.Sprintf("%s-%d", strings.Repeat("x", 50), i))
	}
	for i := range many {
		_, err := admin.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("claim-%d", i)},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class,
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a",
					Operator: metav1.LabelSelectorOpIn, Values: values}}},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}

	seen, config := &lists{}, own.Config(apiserver.Admin.Token())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { seen.RoundTripper = next; return seen })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	caches, err := cache.New(client, contract.ProvisionersNamespace, contract.ProvisionerName, podspec.RecordKey{})
	if err != nil {
		t.Fatal(err)
	}
	go caches.Claims.RunWithContext(t.Context())
	eventually(t, func() error {
		if all := cache.All[*corev1.PersistentVolumeClaim](caches.Claims); len(all) != many {
			return fmt.Errorf("%d claims are known", len(all))
		}
		return nil
	})

	one := len(strings.Join(values, ""))
	for _, claim := range cache.All[*corev1.PersistentVolumeClaim](caches.Claims) {
		if claim.Spec.Selector == nil || len(claim.Spec.Selector.MatchExpressions) > 0 {
			t.Fatalf("claim %s has the selector %v", claim.Name, claim.Spec.Selector)
		}
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.sizes) != 3 || seen.sizes[0] < page*one || seen.sizes[0] > (page+1)*2*one {
		t.Errorf("claims of %d bytes were listed by lists of %v bytes, want three of %d claims at most", one,
			seen.sizes, page)
	}
}

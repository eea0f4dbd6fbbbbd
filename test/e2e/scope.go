//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// scope is a test with a namespace, classes and directories of its own. When the test ends, its claims are deleted, and
// it fails if a volume, a provisioner pod or a directory outlives them.
type scope struct {
	*testing.T
	// name is the namespace of the test's claims and consumers, and begins the names of its classes.
	name    string
	classes []*class
	undo    []func(ctx context.Context) error
}

var (
	scopes   atomic.Int32
	unworthy = regexp.MustCompile(`[^a-z0-9]+`)
)

func begin(t *testing.T) *scope {
	t.Helper()
	slug := strings.TrimPrefix(unworthy.ReplaceAllString(strings.ToLower(t.Name()), "-"), "test")
	s := &scope{T: t, name: fmt.Sprintf("e2e-%s-%s%d", strings.Trim(slug[:min(len(slug), 34)], "-"), run, scopes.Add(1))}
	s.wait(patient, "a dispatcher that works", func() string {
		if len(dispatchers()) == 0 {
			return "no dispatcher is ready: kubectl -n flex-system get pods"
		}
		return ""
	})
	t.Cleanup(s.end)
	s.makeNamespace()
	return s
}

func (s *scope) makeNamespace() {
	s.Helper()
	namespaces := shared.admin.CoreV1().Namespaces()
	_, err := namespaces.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}, metav1.CreateOptions{})
	s.ok(err)
	s.later(func(ctx context.Context) error { return namespaces.Delete(ctx, s.name, metav1.DeleteOptions{}) })
	// Pods are refused until the namespace has its ServiceAccount.
	s.wait(soon, "namespace "+s.name, func() string {
		_, err := shared.admin.CoreV1().ServiceAccounts(s.name).Get(s.Context(), "default", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

func (s *scope) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// later removes something when the test ends, after its claims and whatever was made after it.
func (s *scope) later(remove func(ctx context.Context) error) { s.undo = append(s.undo, remove) }

// end tells what is known if the test failed, before it takes the evidence away.
func (s *scope) end() {
	ctx := context.Background()
	told := s.Failed()
	if told {
		s.diagnose(ctx)
	}
	s.deleteClaims(ctx)
	if lack, err := shared.await(patient, s.left); err != nil {
		s.Errorf("left behind: %s", lack)
		if !told {
			s.diagnose(ctx)
		}
		s.force(ctx)
	}
	s.deleteKeptPods(ctx)
	for _, remove := range slices.Backward(s.undo) {
		if err := remove(ctx); err != nil && !apierrors.IsNotFound(err) {
			s.Errorf("clean up: %v", err)
		}
	}
	for _, c := range s.classes {
		s.checkDirectories(c)
		if err := os.RemoveAll(c.dir()); err != nil {
			s.Errorf("clean up: %v", err)
		}
	}
}

func (s *scope) deleteClaims(ctx context.Context) {
	core, now := shared.admin.CoreV1(), int64(0)
	for what, err := range map[string]error{
		"pods":   core.Pods(s.name).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{}),
		"claims": core.PersistentVolumeClaims(s.name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	} {
		if err != nil {
			s.Errorf("delete %s of %s: %v", what, s.name, err)
		}
	}
}

func (s *scope) ours(name string) bool {
	return slices.ContainsFunc(s.classes, func(c *class) bool { return c.name == name })
}

// volumes of the test's classes.
func (s *scope) volumes() []*corev1.PersistentVolume {
	return all(shared.volumes, func(v *corev1.PersistentVolume) bool { return s.ours(v.Spec.StorageClassName) })
}

// pods are the provisioner pods of the test's classes that exist now. Those that failed, were acted on and are kept for
// their logs do not count.
func (s *scope) pods() []*corev1.Pod {
	return all(shared.pods, func(p *corev1.Pod) bool { return s.ours(p.Annotations[contract.AnnClass]) && !kept(p) })
}

func kept(pod *corev1.Pod) bool {
	return podspec.Handled(pod) && podspec.OutcomeOf(pod).Phase == podspec.Failed
}

// left names what of the test still exists.
func (s *scope) left() string {
	var names []string
	for _, c := range all(shared.claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Namespace == s.name }) {
		names = append(names, "claim "+c.Name)
	}
	for _, v := range s.volumes() {
		names = append(names, fmt.Sprintf("volume %s (%s)", v.Name, v.Status.Phase))
	}
	for _, p := range s.pods() {
		names = append(names, fmt.Sprintf("pod %s (%s)", p.Name, p.Status.Phase))
	}
	return strings.Join(names, ", ")
}

// force takes away what the dispatcher left, so that other tests and people have a clean cluster.
func (s *scope) force(ctx context.Context) {
	bare, now := []byte(`{"metadata":{"finalizers":null}}`), int64(0)
	core := shared.admin.CoreV1()
	for _, v := range s.volumes() {
		_ = core.PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{})
		_, _ = core.PersistentVolumes().Patch(ctx, v.Name, types.MergePatchType, bare, metav1.PatchOptions{})
	}
	for _, p := range s.pods() {
		_, _ = core.Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, bare, metav1.PatchOptions{})
		_ = core.Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	}
}

func (s *scope) deleteKeptPods(ctx context.Context) {
	for _, p := range all(shared.pods, func(p *corev1.Pod) bool { return s.ours(p.Annotations[contract.AnnClass]) && kept(p) }) {
		if err := shared.admin.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			s.Errorf("delete kept pod: %v", err)
		}
	}
}

// checkDirectories fails if storage of the class is left. The ID of the whole storage stays.
func (s *scope) checkDirectories(c *class) {
	left, err := filepath.Glob(c.dir() + "/volumes/*")
	left = slices.DeleteFunc(left, func(path string) bool { return filepath.Base(path) == ".flex-provisioner.id" })
	if err != nil || len(left) > 0 {
		s.Errorf("storage of class %s is left: %v %v", c.name, left, err)
	}
}

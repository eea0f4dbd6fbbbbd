//go:build e2e

package attack

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cluster"
)

// everything is what the stories share; it exists before the first.
var everything *world

func TestMain(m *testing.M) {
	flag.Parse()
	// Stories mostly wait, and Go would run no more of them at a time than there are cores.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(runAll(context.Background(), m))
}

func runAll(ctx context.Context, m *testing.M) int {
	var err error
	everything, err = setUp(ctx)
	if everything != nil {
		defer everything.takeDown()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "attack:", err)
		return 1
	}
	return m.Run()
}

func setUp(ctx context.Context) (*world, error) {
	config, err := cluster.Config(cluster.Kubeconfig())
	if err != nil {
		return nil, err
	}
	w, err := newWorld(config)
	if err != nil {
		return nil, err
	}
	if os.Getenv("FLEX_E2E_SKIP_INSTALL") != "1" {
		for _, image := range []string{"flex-provisioner", "shell"} {
			if err := cluster.LoadImages(ctx, cluster.Repository, image); err != nil {
				return nil, err
			}
		}
		if err := cluster.Install(ctx, cluster.Repository); err != nil {
			return nil, err
		}
	}
	return w, w.prepare(ctx)
}

// prepare makes what the stories need, and waits until it can be used.
func (w *world) prepare(ctx context.Context) error {
	for _, dir := range []string{"/srv/nfs", exportDir, exportDir + "/volumes", exportDir + "/gates", exportDir + "/seen"} {
		if err := cluster.OpenDir(dir); err != nil {
			return err
		}
	}
	if _, err := cluster.KubectlWith(ctx, w.setup(), "apply", "-f", "-"); err != nil {
		return err
	}
	if err := w.grant(ctx); err != nil {
		return err
	}

	var err error
	if w.data, err = w.claim(ctx, w.victim, "data", nil); err != nil {
		return err
	}
	if w.target, err = w.claim(ctx, w.tenant, "target", nil); err != nil {
		return err
	}
	if err := w.open(w.data); err != nil {
		return err
	}
	if err := w.wait(ctx, patient, func() string { return w.notBound(ctx, w.data) }); err != nil {
		return fmt.Errorf("the victim's claim is not bound: %w", err)
	}
	var pod *corev1.Pod
	if err := w.wait(ctx, patient, func() (lack string) { pod, lack = w.running(ctx, w.target); return lack }); err != nil {
		return fmt.Errorf("the target's pod does not run: %w", err)
	}
	return w.know(ctx, pod)
}

// takeDown removes what prepare made. What a case left of claims is removed with them.
func (w *world) takeDown() {
	ctx := context.Background()
	for _, namespace := range []string{w.tenant, w.victim} {
		_ = w.admin.CoreV1().PersistentVolumeClaims(namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}
	if w.target != nil {
		_ = w.open(w.target)
	}
	if err := w.wait(ctx, patient, func() string { return w.left(ctx) }); err != nil {
		fmt.Fprintln(os.Stderr, "attack: left behind:", err)
		w.force(ctx)
	}
	now := int64(0)
	_ = w.admin.CoreV1().Pods(contract.ProvisionersNamespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, metav1.ListOptions{LabelSelector: "app=attack"})
	gone := map[string]any{}
	for _, setting := range []string{"storageClasses", "volumeTypes", "nfsExports", "pathPrefixes", "csiDrivers", "mountOptions", "secretNamespaces"} {
		gone[setting] = nil
	}
	_, err := cluster.KubectlWith(ctx, w.setup(), "delete", "--ignore-not-found", "--wait=false", "-f", "-")
	if err := errors.Join(err, w.allow(ctx, "attack-image", gone), w.allow(ctx, "attack-granted", map[string]any{"privileges": nil}), os.RemoveAll(exportDir)); err != nil {
		fmt.Fprintln(os.Stderr, "attack: clean up:", err)
	}
}

// TestStories tells all stories of the tables, those that need to be alone after the others.
func TestStories(t *testing.T) {
	for _, alone := range []bool{false, true} {
		for _, view := range views {
			data := read(t, view)
			t.Run(view, func(t *testing.T) {
				for _, a := range data.Cases {
					if a.Story != "" && a.Alone == alone {
						t.Run(a.Name, func(t *testing.T) {
							if !alone {
								t.Parallel()
							}
							tell, known := stories[a.Story]
							if !known {
								t.Fatalf("there is no story %q", a.Story)
							}
							tell(begin(t, a))
						})
					}
				}
			})
		}
	}
}

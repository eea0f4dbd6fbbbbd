//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/typed/volumesnapshot/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cluster"
)

// Images that every run loads. There is no registry: they are on the node, or nowhere.
const (
	shellImage     = "registry.invalid/flex-provisioner/shell:dev"
	nfsSubdirImage = "registry.invalid/flex-provisioner/nfs-subdir:dev"
)

// nfsServer is the node, whose directories the cluster's stand-in for NFS serves; nfsRoot is the one that tests use.
const (
	nfsServer = "10.99.0.1"
	nfsRoot   = "/srv/nfs"
)

// What the tests do with the cluster at every turn.
const repository = cluster.Repository

var (
	command    = cluster.Command
	kubectl    = cluster.Kubectl
	kubeconfig = cluster.Kubeconfig
	openDir    = cluster.OpenDir
	exists     = cluster.Exists
)

// tomsKubeconfig is that of tom, an ordinary user.
var tomsKubeconfig = filepath.Join(repository, ".cluster", "tom.kubeconfig")

// run tells the objects of this run from those that an earlier one may have left.
var run = strconv.FormatInt(time.Now().Unix(), 36)

// export is the claim in the provisioners' namespace through which provisioner pods reach the directory exportDir.
var (
	export    = "e2e-" + run
	exportDir = nfsRoot + "/" + export
)

// everything is what all tests share.
type everything struct {
	// admin may do everything; tom is an ordinary user, of group team-a, who may do what a test lets him.
	admin, tom kubernetes.Interface
	// snapshots reaches the objects of snapshots as the admin. No watch tells of them.
	snapshots snapshotclient.SnapshotV1Interface
	*watched
	unwatch func()
}

// shared is set before the first test.
var shared *everything

// setUp installs the project, unless FLEX_E2E_SKIP_INSTALL=1, and returns what takes down what it made for the tests.
func setUp(ctx context.Context) (takeDown func(), err error) {
	shared = &everything{}
	if shared.admin, err = client(kubeconfig()); err != nil {
		return nil, err
	}
	if shared.tom, err = client(tomsKubeconfig); err != nil {
		return nil, err
	}
	if shared.snapshots, err = snapshotsClient(); err != nil {
		return nil, err
	}
	stamps, err := canStamp()
	if err != nil {
		return nil, err
	}
	if !stamps {
		cluster.Installation = "deploy/base"
	}
	if os.Getenv("FLEX_E2E_SKIP_INSTALL") != "1" {
		if err := install(ctx, repository); err != nil {
			return nil, err
		}
	}
	if err := step("build programs", func() error { return buildPrograms(ctx) }); err != nil {
		return nil, err
	}
	if stamps {
		if err := step("wait until claims are stamped", func() error { return stamped(ctx) }); err != nil {
			return nil, err
		}
	}
	if err := shared.watchAnew(ctx); err != nil {
		return nil, err
	}
	return func() { removeExport(); shared.unwatch() }, makeExport(ctx)
}

// buildPrograms builds the programs of cmd/, all into one folder: kubectl-flex runs the flexctl that is beside it.
func buildPrograms(ctx context.Context) (err error) {
	if programs, err = os.MkdirTemp("", "flex-e2e-"); err != nil {
		return err
	}
	_, err = command(ctx, "go", "build", "-o", programs, "./cmd/...")
	return err
}

// watchAnew replaces the watches. An etcd that begins again with small revisions tells the old ones nothing.
func (c *everything) watchAnew(ctx context.Context) (err error) {
	if c.unwatch != nil {
		c.unwatch()
	}
	c.watched, c.unwatch, err = watch(ctx, c.admin)
	return err
}

// install installs the version of a checkout in place of the one that there is.
func install(ctx context.Context, checkout string) error {
	if err := step("load images", func() error { return cluster.LoadImages(ctx, checkout, "*") }); err != nil {
		return err
	}
	return step("install "+cluster.Installation, func() error { return cluster.Install(ctx, checkout) })
}

// canStamp says whether the API server serves MutatingAdmissionPolicy, which is stable since Kubernetes 1.36.
func canStamp() (bool, error) {
	served, err := shared.admin.Discovery().ServerResourcesForGroupVersion(admissionv1.SchemeGroupVersion.String())
	if err != nil {
		return false, fmt.Errorf("ask what the API server serves: %w", err)
	}
	return slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == "mutatingadmissionpolicies" }), nil
}

// stamped waits until the policies that name a claim's creator are in force; a dry run shows it.
func stamped(ctx context.Context) error {
	probe := newClaim("default", export+"-probe", "", "1Mi")
	var err error
	late := wait.PollUntilContextTimeout(ctx, glance, time.Minute, true, func(ctx context.Context) (bool, error) {
		var made *corev1.PersistentVolumeClaim
		made, err = shared.admin.CoreV1().PersistentVolumeClaims("default").Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && made.Annotations[contract.AnnCreatedBy] != "", nil
	})
	if late != nil {
		return fmt.Errorf("claims are not stamped with their creator: %w", errors.Join(err, late))
	}
	return nil
}

// keepAllowList gives the allow-list a line that stays. Somebody who adds a line to an empty list by a merge patch, as tests do, owns the
// list as a whole, and goes on owning it when the line is gone: server-side apply of an example would be a conflict.
func keepAllowList(ctx context.Context) error {
	line := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flex-pv-policy", "namespace": %q}, "data": {"nobody.storageClasses": "none"}}`,
		contract.SystemNamespace)
	_, err := shared.admin.CoreV1().ConfigMaps(contract.SystemNamespace).Patch(ctx, "flex-pv-policy", types.ApplyPatchType, []byte(line),
		metav1.PatchOptions{FieldManager: "nobody"})
	return err
}

// makeExport makes the directory that all classes of this run share, the static volume and claim by which provisioner pods mount it, and a
// line of the allow-list.
func makeExport(ctx context.Context) error {
	if err := openDir(nfsRoot); err != nil {
		return err
	}
	if err := openDir(exportDir); err != nil {
		return err
	}
	if err := exportKubectl(); err != nil {
		return err
	}
	if err := keepAllowList(ctx); err != nil {
		return err
	}
	return makeExportClaim(ctx, export)
}

// makeExportClaim makes a claim in the provisioners' namespace, and its volume of the same name, through which provisioner pods reach the
// directory exportDir. It waits until they are bound.
func makeExportClaim(ctx context.Context, name string) error {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		ClaimRef:               &corev1.ObjectReference{Namespace: contract.ProvisionersNamespace, Name: name},
		PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: nfsServer, Path: exportDir}},
	}}
	none := ""
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &none, VolumeName: name, AccessModes: modes,
		Resources: corev1.VolumeResourceRequirements{Requests: size},
	}}
	claims := shared.admin.CoreV1().PersistentVolumeClaims(contract.ProvisionersNamespace)
	if _, err := shared.admin.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the export's volume: %w", err)
	}
	if _, err := claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the export's claim: %w", err)
	}
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, patient, true, func(ctx context.Context) (bool, error) {
		now, err := claims.Get(ctx, name, metav1.GetOptions{})
		return err == nil && now.Status.Phase == corev1.ClaimBound, err
	})
}

// removeExportClaim removes what makeExportClaim made.
func removeExportClaim(ctx context.Context, name string) error {
	return errors.Join(shared.admin.CoreV1().PersistentVolumeClaims(contract.ProvisionersNamespace).Delete(ctx, name, metav1.DeleteOptions{}),
		shared.admin.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{}))
}

// exportKubectl puts kubectl where scripts find it as /export/kubectl, for authors who do without flexctl.
func exportKubectl() error {
	program, err := os.ReadFile(filepath.Join(repository, ".cluster", "bin", "kubectl"))
	if err != nil {
		return err
	}
	return os.WriteFile(exportDir+"/kubectl", program, 0o755)
}

func removeExport() {
	ctx := context.Background()
	for what, err := range map[string]error{
		"claim":     removeExportClaim(ctx, export),
		"directory": os.RemoveAll(exportDir),
		"programs":  os.RemoveAll(programs),
	} {
		if err != nil {
			fmt.Fprintf(os.Stderr, "e2e: remove the export's %s: %v\n", what, err)
		}
	}
}

func client(kubeconfig string) (kubernetes.Interface, error) {
	config, err := cluster.Config(kubeconfig)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

func snapshotsClient() (snapshotclient.SnapshotV1Interface, error) {
	config, err := cluster.Config(kubeconfig())
	if err != nil {
		return nil, err
	}
	return snapshotclient.NewForConfig(config)
}

// step says what takes its time.
func step(what string, do func() error) error {
	began := time.Now()
	err := do()
	fmt.Printf("e2e: %s: %.1f s\n", what, time.Since(began).Seconds())
	return err
}

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flex-provisioner/flex-provisioner/contract"
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

// installation is what is installed: the base, with the stamp that says who made a claim.
const installation = "deploy/overlays/creator-stamp"

// repository is the checkout; tests run in their package's directory.
var repository = filepath.Join("..", "..")

// tomsKubeconfig is that of tom, an ordinary user.
var tomsKubeconfig = filepath.Join(repository, ".cluster", "tom.kubeconfig")

// run tells the objects of this run from those that an earlier one may have left.
var run = strconv.FormatInt(time.Now().Unix(), 36)

// export is the claim in the provisioners' namespace through which provisioner pods reach the directory exportDir.
var (
	export    = "e2e-" + run
	exportDir = nfsRoot + "/" + export
)

// cluster is what all tests share.
type cluster struct {
	// admin may do everything; tom is an ordinary user, of group team-a, who may do what a test lets him.
	admin, tom kubernetes.Interface
	*watched
	unwatch func()
}

// shared is set before the first test.
var shared *cluster

// setUp installs the project, unless FLEX_E2E_SKIP_INSTALL=1, and returns what takes down what it made for the tests.
func setUp(ctx context.Context) (takeDown func(), err error) {
	shared = &cluster{}
	if shared.admin, err = client(kubeconfig()); err != nil {
		return nil, err
	}
	if shared.tom, err = client(tomsKubeconfig); err != nil {
		return nil, err
	}
	if os.Getenv("FLEX_E2E_SKIP_INSTALL") != "1" {
		if err := install(ctx, repository); err != nil {
			return nil, err
		}
	}
	if err := step("build programs", func() error { return buildPrograms(ctx) }); err != nil {
		return nil, err
	}
	if err := step("wait until claims are stamped", func() error { return stamped(ctx) }); err != nil {
		return nil, err
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
func (c *cluster) watchAnew(ctx context.Context) (err error) {
	if c.unwatch != nil {
		c.unwatch()
	}
	c.watched, c.unwatch, err = watch(ctx, c.admin)
	return err
}

// loadImages brings the images of a checkout to all nodes, or with the option --node to one.
func loadImages(ctx context.Context, checkout string, options ...string) error {
	images, err := filepath.Glob(filepath.Join(checkout, "bin", "images", "*.tar"))
	if err != nil || len(images) == 0 {
		return fmt.Errorf("no images in bin/images of %s: make images", checkout)
	}
	args := append([]string{"test/cluster/load-image.sh"}, options...)
	for _, image := range images {
		image, err := filepath.Abs(image)
		if err != nil {
			return err
		}
		args = append(args, image)
	}
	_, err = command(ctx, args...)
	return err
}

// install installs the version of a checkout in place of the one that there is.
func install(ctx context.Context, checkout string) error {
	if err := step("load images", func() error { return loadImages(ctx, checkout) }); err != nil {
		return err
	}
	manifests, err := filepath.Abs(filepath.Join(checkout, installation))
	if err != nil {
		return err
	}
	return step("install "+installation, func() error {
		for _, args := range [][]string{
			{"apply", "--server-side", "--force-conflicts", "-k", manifests},
			{"-n", contract.SystemNamespace, "rollout", "restart", "deployment/flex-provisioner"}, // the image may be new
			{"-n", contract.SystemNamespace, "rollout", "status", "deployment/flex-provisioner", "--timeout=120s"},
		} {
			if _, err := kubectl(ctx, args...); err != nil {
				return err
			}
		}
		return nil
	})
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

// makeExport makes the directory that all classes of this run share, and the static volume and claim by which
// provisioner pods mount it.
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
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: export}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		ClaimRef:               &corev1.ObjectReference{Namespace: contract.ProvisionersNamespace, Name: export},
		PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: nfsServer, Path: exportDir}},
	}}
	none := ""
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: export}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &none, VolumeName: export, AccessModes: modes,
		Resources: corev1.VolumeResourceRequirements{Requests: size},
	}}
	if _, err := shared.admin.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the export's volume: %w", err)
	}
	if _, err := shared.admin.CoreV1().PersistentVolumeClaims(contract.ProvisionersNamespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make the export's claim: %w", err)
	}
	return nil
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
		"claim":     shared.admin.CoreV1().PersistentVolumeClaims(contract.ProvisionersNamespace).Delete(ctx, export, metav1.DeleteOptions{}),
		"volume":    shared.admin.CoreV1().PersistentVolumes().Delete(ctx, export, metav1.DeleteOptions{}),
		"directory": os.RemoveAll(exportDir),
		"programs":  os.RemoveAll(programs),
	} {
		if err != nil {
			fmt.Fprintf(os.Stderr, "e2e: remove the export's %s: %v\n", what, err)
		}
	}
}

// openDir makes a directory into which every user may write, as a server that maps all users to one would let them.
func openDir(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return os.Chmod(dir, 0o777) // whatever the umask says
}

// exists says whether there is anything at a path of the node.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func kubeconfig() string {
	if file := os.Getenv("KUBECONFIG"); file != "" {
		return file
	}
	return filepath.Join(repository, ".cluster", "kubeconfig")
}

func client(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("no cluster (make cluster-up): %w", err)
	}
	config.QPS, config.Burst = 200, 400
	return kubernetes.NewForConfig(config)
}

// kubectl runs kubectl in the repository, as the admin.
func kubectl(ctx context.Context, args ...string) (string, error) {
	program := filepath.Join(".cluster", "bin", "kubectl")
	if _, err := os.Stat(filepath.Join(repository, program)); err != nil {
		program = "kubectl"
	}
	file, err := filepath.Abs(kubeconfig())
	if err != nil {
		return "", err
	}
	return command(ctx, append([]string{program, "--kubeconfig", file}, args...)...)
}

// command runs a command in the repository; what it printed is part of the error.
func command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = repository
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// step says what takes its time.
func step(what string, do func() error) error {
	began := time.Now()
	err := do()
	fmt.Printf("e2e: %s: %.1f s\n", what, time.Since(began).Seconds())
	return err
}

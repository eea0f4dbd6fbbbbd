//go:build integration

package integration

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// Everything that can be installed is accepted, without a warning.
func TestManifestsAreAccepted(t *testing.T) {
	dirs := append([]string{"deploy/base", "deploy/overlays/ha", "examples"}, examples(t, "kustomization.yaml")...)
	if servesStamp(t) {
		dirs = append(dirs, "deploy/overlays/creator-stamp")
	}
	for _, dir := range dirs {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			out, err := server.Kubectl(t.Context(), "apply", "--server-side", "--field-manager="+filepath.Base(dir), "--force-conflicts", "--dry-run=server", "--warnings-as-errors", "-k", dir)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out, "(server dry run)") {
				t.Errorf("kubectl printed %q", out)
			}
		})
	}
}

// The Deployment's pods meet the Pod Security level of their namespace. A Deployment is accepted whatever they are.
func TestDispatcherPodIsAccepted(t *testing.T) {
	client := server.Client(apiserver.Admin.Token())
	deployment, err := client.AppsV1().Deployments(contract.SystemNamespace).Get(t.Context(), "flex-provisioner", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
	pod.GenerateName = "flex-provisioner-"
	made, err := client.CoreV1().Pods(contract.SystemNamespace).Create(t.Context(), pod, dryRun)
	if err != nil {
		t.Fatal(err)
	}
	if got := made.Spec.ServiceAccountName; got != "dispatcher" {
		t.Errorf("serviceAccountName is %s, want dispatcher", got)
	}
	pod.Spec.HostNetwork = true
	if _, err := client.CoreV1().Pods(contract.SystemNamespace).Create(t.Context(), pod, dryRun); !violates(err) {
		t.Errorf("answer to a pod on the node's network: %v, want a refusal by Pod Security", err)
	}
}

// The parts of an example name each other rightly. A wrong name shows only when a claim is made.
func TestExamplesAreConsistent(t *testing.T) {
	for _, dir := range examples(t, "consumer.yaml") {
		t.Run(dir, func(t *testing.T) { checkExample(t, dir) })
	}
}

// examples are the folders of examples/ that hold a file of this name.
func examples(t *testing.T, name string) []string {
	t.Helper()
	files, err := filepath.Glob("../../examples/*/" + name)
	if err != nil || len(files) < 4 {
		t.Fatalf("there are only these examples: %v %v", files, err)
	}
	var dirs []string
	for _, file := range files {
		dirs = append(dirs, "examples/"+filepath.Base(filepath.Dir(file)))
	}
	return dirs
}

// example is what one kustomization renders, as far as its parts name each other.
type example struct {
	classes   map[string]storagev1.StorageClass
	configs   []corev1.ConfigMap
	accounts  map[string]bool
	allowList map[string]string
	claims    map[string]bool   // namespace/name
	ownClaims map[string]string // the class of each claim of users
	ownPod    corev1.Pod
}

func checkExample(t *testing.T, dir string) {
	t.Helper()
	e := render(t, dir)
	if len(e.configs) == 0 || len(e.ownClaims) != len(e.configs) || len(e.ownPod.Spec.Volumes) != len(e.configs) {
		t.Fatalf("there are %d provisioner ConfigMaps, %d claims and %d volumes of the consumer; want as many of each",
			len(e.configs), len(e.ownClaims), len(e.ownPod.Spec.Volumes))
	}
	accounts := map[string]string{}
	for i := range e.configs {
		class, account := e.checkConfig(t, &e.configs[i])
		accounts[class] = account
	}
	for name := range e.classes {
		e.checkClass(t, name, accounts)
	}
	for name, class := range e.ownClaims {
		if _, known := e.classes[class]; !known {
			t.Errorf("claim %s is of class %s, which is not among the StorageClasses", name, class)
		}
	}
	for _, v := range e.ownPod.Spec.Volumes {
		if _, known := e.ownClaims[v.PersistentVolumeClaim.ClaimName]; !known {
			t.Errorf("the consumer's claim %s is not there", v.PersistentVolumeClaim.ClaimName)
		}
	}
}

// checkClass checks what serves a class. accounts are the ConfigMaps' by their classes.
func (e *example) checkClass(t *testing.T, name string, accounts map[string]string) {
	t.Helper()
	served, faults := configmaps.ServedAs(name, e.classes[name].Parameters)
	account, known := accounts[served]
	if len(faults) > 0 || !known {
		t.Errorf("class %s is served by the ConfigMap of %q, %v; there are %v", name, served, faults, accounts)
	}
	list := e.allowList[account+".storageClasses"]
	if !slices.ContainsFunc(strings.Split(list, ","), func(entry string) bool {
		prefix, open := strings.CutSuffix(entry, "*")
		return entry == name || open && strings.HasPrefix(name, prefix)
	}) {
		t.Errorf("allow-list has %s.storageClasses %q, want %q in it", account, list, name)
	}
}

// checkConfig returns the class that a ConfigMap is for, and the ServiceAccount that serves it.
func (e *example) checkConfig(t *testing.T, cm *corev1.ConfigMap) (class, account string) {
	t.Helper()
	config, errs := configmaps.Parse(cm)
	if len(errs) > 0 {
		t.Fatalf("ConfigMap %s: %v", cm.Name, errs.ToAggregate())
	}
	storageClass, known := e.classes[config.StorageClass]
	if !known || storageClass.Provisioner != cm.Data["plugin-name"] {
		t.Errorf("class %q of provisioner %q is not among the StorageClasses", config.StorageClass, cm.Data["plugin-name"])
	}
	account = config.ServiceAccountName
	if !e.accounts[account] {
		t.Errorf("ServiceAccount %s is not there", account)
	}
	for _, m := range config.MountClaims {
		if !e.claims[contract.ProvisionersNamespace+"/"+m.Claim] {
			t.Errorf("claim %s of mount-claims is not there", m.Claim)
		}
	}
	return config.StorageClass, account
}

func render(t *testing.T, dir string) example {
	t.Helper()
	out, err := server.Kubectl(t.Context(), "kustomize", dir)
	if err != nil {
		t.Fatal(err)
	}
	e := example{classes: map[string]storagev1.StorageClass{}, accounts: map[string]bool{}, claims: map[string]bool{}, ownClaims: map[string]string{}}
	for document := range strings.SplitSeq(out, "\n---\n") {
		e.add(t, []byte(document))
	}
	return e
}

func (e *example) add(t *testing.T, document []byte) {
	t.Helper()
	read := func(into any) {
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
	}
	var head struct{ Kind string }
	if err := yaml.Unmarshal(document, &head); err != nil {
		t.Fatal(err)
	}
	switch head.Kind {
	case "StorageClass":
		var class storagev1.StorageClass
		read(&class)
		e.classes[class.Name] = class
	case "ConfigMap":
		var config corev1.ConfigMap
		read(&config)
		if config.Namespace == contract.ProvisionersNamespace {
			e.configs = append(e.configs, config)
		} else {
			e.allowList = config.Data
		}
	case "ServiceAccount":
		var account corev1.ServiceAccount
		read(&account)
		e.accounts[account.Name] = account.Namespace == contract.ProvisionersNamespace
	case "PersistentVolumeClaim":
		var claim corev1.PersistentVolumeClaim
		read(&claim)
		e.claims[claim.Namespace+"/"+claim.Name] = true
		if claim.Namespace == "" {
			e.ownClaims[claim.Name] = *claim.Spec.StorageClassName
		}
	case "Pod":
		read(&e.ownPod)
	}
}

package main

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// Names of what the bench makes.
const (
	name  = "flex-bench"
	image = "registry.invalid/flex-provisioner/shell:dev"
	// floorProvisioner is in the classes of the bare program. The controller-manager leaves their claims to it, and the
	// dispatcher does too.
	floorProvisioner = "bench.flex-provisioner.io/floor"
)

// dispatcherUser is who the dispatcher is on a real cluster. The bare program is the same user, so that both pass the
// same queue of the API server and the same policies.
var dispatcherUser = apiserver.User{Name: "system:serviceaccount:" + contract.SystemNamespace + ":dispatcher",
	Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + contract.SystemNamespace}}

// plane is a control plane of test/cluster's binaries on loopback, with flex-provisioner installed but not running. No
// node is in it: a player does to pods what kubelets would.
type plane struct {
	server *apiserver.Server
	admin  kubernetes.Interface
}

// What the controller-manager may do. The first has the sync period of -sync.
var (
	raised        = apiserver.Limits{QPS: 300, Burst: 500}
	noControllers = apiserver.Limits{}
)

// withSnapshots says that planes serve snapshots, which no claim of the bench asks for.
var withSnapshots bool

// startPlane takes about ten seconds. Each burst has one of its own, so that none finds what another left in etcd.
func startPlane(ctx context.Context, controllers apiserver.Limits) (_ *plane, err error) {
	server, err := apiserver.Start(ctx, []apiserver.User{dispatcherUser})
	if err != nil {
		return nil, err
	}
	p := &plane{server: server, admin: kubernetes.NewForConfigOrDie(inProtobuf(server.Config(apiserver.Admin.Token())))}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	if controllers != noControllers {
		if _, err := server.StartControllersAt(controllers); err != nil {
			return nil, err
		}
	}
	if _, err := server.Kubectl(ctx, "apply", "-k", "deploy/base"); err != nil {
		return nil, err
	}
	if withSnapshots {
		if err := server.InstallSnapshots(ctx); err != nil {
			return nil, err
		}
		if err := server.StartSnapshotController(); err != nil {
			return nil, err
		}
	}
	// The dispatcher runs outside.
	if err := p.admin.AppsV1().Deployments(contract.SystemNamespace).Delete(ctx, "flex-provisioner", metav1.DeleteOptions{}); err != nil {
		return nil, fmt.Errorf("delete Deployment: %w", err)
	}
	if err := p.setUp(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// startQuietPlane starts one where no controller runs, so that what is written stays as it is, with a class.
func startQuietPlane(ctx context.Context, c class) (*plane, error) {
	p, err := startPlane(ctx, noControllers)
	if err != nil {
		return nil, err
	}
	if err := addClass(ctx, p.admin, c); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *plane) stop() { p.server.Stop() }

func inProtobuf(config *rest.Config) *rest.Config {
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}

// setUp makes a namespace for claims, and what counts the dispatcher's requests.
func (p *plane) setUp(ctx context.Context) error {
	if _, err := p.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	for _, schema := range flowSchemas() {
		if _, err := p.admin.FlowcontrolV1().FlowSchemas().Create(ctx, schema, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create FlowSchema %s: %w", schema.Name, err)
		}
	}
	return nil
}

// class is a StorageClass with its ConfigMap and the rights of its pods.
type class struct {
	name, provisioner string
	// data of the ConfigMap beside what every one has.
	data map[string]string
}

// addClass makes a class whose storage is made of nothing, so that only the way there is measured.
func addClass(ctx context.Context, client kubernetes.Interface, c class) error {
	meta := metav1.ObjectMeta{Name: c.name}
	ours := metav1.ObjectMeta{Name: c.name, Namespace: contract.ProvisionersNamespace}
	no := false
	for _, create := range []func() error{
		func() error {
			_, err := client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{ObjectMeta: meta, Provisioner: c.provisioner}, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := client.CoreV1().ServiceAccounts(ours.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: ours, AutomountServiceAccountToken: &no}, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := client.CoreV1().ConfigMaps(contract.SystemNamespace).Patch(ctx, "flex-pv-policy", types.MergePatchType,
				fmt.Appendf(nil, `{"data":{"%[1]s.storageClasses":"%[1]s","%[1]s.volumeTypes":"nfs"}}`, c.name), metav1.PatchOptions{})
			return err
		},
		func() error {
			_, err := client.CoreV1().ConfigMaps(ours.Namespace).Create(ctx, c.configMap(), metav1.CreateOptions{})
			return err
		},
	} {
		if err := create(); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make class %s: %w", c.name, err)
		}
	}
	return nil
}

func removeClass(ctx context.Context, client kubernetes.Interface, name string) {
	o := metav1.DeleteOptions{}
	for what, err := range map[string]error{
		"ConfigMap":      client.CoreV1().ConfigMaps(contract.ProvisionersNamespace).Delete(ctx, name, o),
		"ServiceAccount": client.CoreV1().ServiceAccounts(contract.ProvisionersNamespace).Delete(ctx, name, o),
		"StorageClass":   client.StorageV1().StorageClasses().Delete(ctx, name, o),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			fmt.Fprintf(os.Stderr, "bench: delete %s %s: %v\n", what, name, err)
		}
	}
}

func (c class) configMap() *corev1.ConfigMap {
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: c.name, Namespace: contract.ProvisionersNamespace,
			Labels: map[string]string{"storage-class": c.name, "type": "provisioner-config"}},
		Data: map[string]string{
			"plugin-name": c.provisioner, "image": image, "service-account-name": c.name, "flexctl": "in-image",
			"provision": `echo "nfs: {server: 10.99.0.1, path: /$FLEX_PV_NAME}" | flexctl create-pv`, "delete": "true",
		},
	}
	for key, value := range c.data {
		cm.Data[key] = value
	}
	return cm
}

// config is the class's ConfigMap as the dispatcher reads it.
func (c class) config() (*configmaps.Config, error) {
	config, faults := configmaps.Parse(c.configMap())
	if len(faults) > 0 {
		return nil, fmt.Errorf("read ConfigMap of class %s: %w", c.name, faults.ToAggregate())
	}
	return config, nil
}

// writeSchemas are the FlowSchemas that count the dispatcher's writes, by verb and resource: the API server's metrics
// tell requests apart by FlowSchema, and by user in no other way. All have the level that ServiceAccounts have anyway.
var writeSchemas = []struct{ verb, resource string }{
	{"create", "pods"}, {"patch", "pods"}, {"delete", "pods"},
	{"patch", "persistentvolumes"}, {"delete", "persistentvolumes"}, {"patch", "persistentvolumeclaims"},
	{"create", "events"}, {"patch", "events"}, {"create", "leases"}, {"update", "leases"},
}

const schemaPrefix = "bench-"

func flowSchemas() []*flowcontrolv1.FlowSchema {
	var list []*flowcontrolv1.FlowSchema
	add := func(name string, verbs, resources []string) {
		list = append(list, &flowcontrolv1.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: schemaPrefix + name}, Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: "workload-low"},
			MatchingPrecedence:         int32(500 + len(list)),
			DistinguisherMethod:        &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: dispatcherUser.Name}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: verbs, APIGroups: []string{"*"}, Resources: resources,
					ClusterScope: true, Namespaces: []string{"*"}}},
			}},
		}})
	}
	for _, s := range writeSchemas {
		add(s.verb+"-"+s.resource, []string{s.verb}, []string{s.resource})
	}
	add("get", []string{"get"}, []string{"*"})
	add("list", []string{"list"}, []string{"*"})
	add("watch", []string{"watch"}, []string{"*"})
	add("other", []string{"*"}, []string{"*"}) // writes that nobody knows of are counted too
	return list
}

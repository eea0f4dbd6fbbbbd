package class

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/allowlist"
	"github.com/flex-provisioner/flex-provisioner/configmaps"
)

// Report is what Check found.
type Report struct {
	// Missing lists what the class lacks, each with the remedy. Unknown lists what the caller may not read.
	Missing, Unknown []string
	// Grants are the class's lines of the allow-list.
	Grants map[string]string
}

// Check checks what an existing class lacks: its StorageClass, its ConfigMap and the faults in it, the ServiceAccount with its permission and
// its grants, and the Secrets and claims that its pods mount. It changes nothing. The error is for requests that failed.
func (c Cluster) Check(ctx context.Context, name string, place Place) (Report, error) {
	if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
		return Report{}, fmt.Errorf("class %q: %s", name, strings.Join(faults, "; "))
	}
	k := &check{Cluster: c, ctx: ctx, at: place}
	if config := k.config(k.served(name)); config != nil {
		k.checkAccount(name, config)
		k.checkMounts(config)
	}
	return k.report, k.failed
}

type check struct {
	Cluster
	ctx    context.Context
	at     Place
	report Report
	failed error
}

func (k *check) missing(format string, args ...any) {
	k.report.Missing = append(k.report.Missing, fmt.Sprintf(format, args...))
}

// read reports whether an object was read. It adds to the report an object that does not exist, or that the caller may not read.
func (k *check) read(object, path, remedy string, into any) bool {
	there, err := k.get(k.ctx, path, "", into)
	switch {
	case apierrors.IsForbidden(err):
		k.report.Unknown = append(k.report.Unknown, object+": you may not read it")
	case err != nil:
		k.failed = errors.Join(k.failed, fmt.Errorf("read %s: %w", object, err))
	case !there && remedy != "":
		k.missing("%s does not exist: %s", object, remedy)
	}
	return there && err == nil
}

func (k *check) path(namespace, resource, name string) string {
	return "/api/v1/namespaces/" + namespace + "/" + resource + "/" + name
}

// served is the class whose ConfigMap serves the class of the name.
func (k *check) served(name string) string {
	var class storagev1.StorageClass
	if !k.read("StorageClass "+name, "/apis/storage.k8s.io/v1/storageclasses/"+name, "create it with provisioner "+k.at.Provisioner, &class) {
		return name
	}
	if class.Provisioner != k.at.Provisioner {
		k.missing("StorageClass %s has the provisioner %s, not %s: create it again", name, class.Provisioner, k.at.Provisioner)
		return name
	}
	served, faults := configmaps.ServedAs(name, class.Parameters)
	for _, fault := range faults {
		k.missing("StorageClass %s: %v", name, fault)
	}
	if served == "" {
		return name
	}
	return served
}

// config is the Config of the class, nil unless it has exactly one valid ConfigMap.
func (k *check) config(class string) *configmaps.Config {
	var list corev1.ConfigMapList
	_, err := k.get(k.ctx, "/api/v1/namespaces/"+k.at.Namespace+"/configmaps", configmaps.LabelType+"="+configmaps.TypeProvisioner, &list)
	if apierrors.IsForbidden(err) {
		k.report.Unknown = append(k.report.Unknown, "the ConfigMaps of namespace "+k.at.Namespace+": you may not read them")
		return nil
	}
	if err != nil {
		k.failed = errors.Join(k.failed, fmt.Errorf("list ConfigMaps of namespace %s: %w", k.at.Namespace, err))
		return nil
	}
	found := slices.DeleteFunc(list.Items, func(cm corev1.ConfigMap) bool { return configmaps.ClassName(&cm) != class })
	switch len(found) {
	case 0:
		k.missing("namespace %s has no ConfigMap of class %s: create one with the labels storage-class: %s and %s: %s", k.at.Namespace, class, class, configmaps.LabelType, configmaps.TypeProvisioner)
		return nil
	case 1:
	default:
		k.missing("class %s has %d ConfigMaps in namespace %s, %s and %s among them: remove all but one", class, len(found), k.at.Namespace, found[0].Name, found[1].Name)
		return nil
	}
	cm := &found[0]
	config, faults := configmaps.Parse(cm)
	for _, fault := range faults {
		k.missing("ConfigMap %s/%s: %v", cm.Namespace, cm.Name, fault)
	}
	if plugin := configmaps.PluginName(cm); len(faults) == 0 && plugin != k.at.Provisioner {
		k.missing("ConfigMap %s/%s: data[plugin-name] is %s, not %s", cm.Namespace, cm.Name, plugin, k.at.Provisioner)
	}
	return config
}

// checkAccount checks the ServiceAccount, its permission to create volumes, and its grants in the allow-list.
func (k *check) checkAccount(name string, config *configmaps.Config) {
	account := config.ServiceAccountName
	k.read("ServiceAccount "+k.at.Namespace+"/"+account, k.path(k.at.Namespace, "serviceaccounts", account), "create it", &metav1.PartialObjectMetadata{})
	k.checkPermission(account)
	var list corev1.ConfigMap
	if !k.read("ConfigMap "+k.at.System+"/"+allowlist.Name, k.path(k.at.System, "configmaps", allowlist.Name), "apply deploy/base", &list) {
		return
	}
	lines := allowlist.Of(list.Data, account)
	k.report.Grants = map[string]string{}
	for setting, value := range lines {
		k.report.Grants[account+"."+setting] = value
	}
	for _, lack := range lines.Lacks(name, config) {
		k.missing("ConfigMap %s/%s: data[%s.%s] %s", k.at.System, allowlist.Name, account, lack.Setting, lack.What)
	}
}

// checkPermission checks that the ServiceAccount may create volumes by RBAC. The admission policies decide which volumes.
func (k *check) checkPermission(account string) {
	review := authorizationv1.SubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{User: "system:serviceaccount:" + k.at.Namespace + ":" + account,
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + k.at.Namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Resource: "persistentvolumes"}}}
	body, err := json.Marshal(review)
	if err == nil {
		var answer []byte
		answer, err = k.client.Post().AbsPath("/apis/authorization.k8s.io/v1/subjectaccessreviews").Timeout(requestTimeout).Body(body).DoRaw(k.ctx)
		if err = statusError(answer, err); err == nil {
			err = json.Unmarshal(answer, &review)
		}
	}
	switch {
	case apierrors.IsForbidden(err):
		k.report.Unknown = append(k.report.Unknown, "whether ServiceAccount "+account+" may create volumes: you may not ask")
	case err != nil:
		k.failed = errors.Join(k.failed, fmt.Errorf("ask what ServiceAccount %s may do: %w", account, err))
	case !review.Status.Allowed:
		k.missing("ServiceAccount %s/%s may not create PersistentVolumes: apply deploy/base, whose ClusterRoleBinding %s lets it", k.at.Namespace, account, "flex-provisioner-pod")
	}
}

// checkMounts checks the Secrets and claims that pods mount. It reads only the metadata of Secrets.
func (k *check) checkMounts(config *configmaps.Config) {
	secrets := map[string]string{}
	for _, name := range config.ImagePullSecrets {
		secrets[name] = "image-pull-secrets"
	}
	for _, name := range config.Secrets {
		secrets[name] = "secrets"
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		what := "Secret " + k.at.Namespace + "/" + name
		answer, err := k.client.Get().AbsPath(k.path(k.at.Namespace, "secrets", name)).SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").Timeout(requestTimeout).DoRaw(k.ctx)
		switch err = statusError(answer, err); {
		case apierrors.IsNotFound(err):
			k.missing("%s does not exist: create it, data[%s] of ConfigMap %s names it", what, secrets[name], config.Name)
		case apierrors.IsForbidden(err):
			k.report.Unknown = append(k.report.Unknown, what+": you may not read it")
		case err != nil:
			k.failed = errors.Join(k.failed, fmt.Errorf("read %s: %w", what, err))
		}
	}
	for _, mount := range config.MountClaims {
		var claim corev1.PersistentVolumeClaim
		what := "claim " + k.at.Namespace + "/" + mount.Claim
		if k.read(what, k.path(k.at.Namespace, "persistentvolumeclaims", mount.Claim), "create it, data[mount-claims] of ConfigMap "+config.Name+" names it", &claim) &&
			claim.Status.Phase != corev1.ClaimBound {
			k.missing("%s is not bound, and pods that mount it do not start: kubectl -n %s describe pvc %s says why", what, k.at.Namespace, mount.Claim)
		}
	}
}

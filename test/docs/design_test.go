package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

const design = "docs/from-the-design.md"

// designWords are all names of the designs, by the table in which a reader looks for them.
var designWords = map[string][]string{
	"## Who": {"Storage Administrator", "Kubernetes Administrator", "User", "Dynamic Provisioning Framework", "DPF", "Flex Provisioner", "provisioning container", "Storage Control Plane"},
	"## Keys of the ConfigMap": {"`storage-class`", "`type: provisioner-config`", "`plugin-name`", "`image`", "`service-account-name`", "`service-token`", "`use-nfs-server`", "`zone`",
		"node selector", "secrets volume"},
	"## Properties of the container": {"`pv-name`", "`username`", "`storage-class`", "`zone`", "`use-nfs-server`", "`service-account`", "`service-token`", "`kube-api`", "user", "group", "size"},
	"## Steps": {"User submits PVC", "Apiserver", "Dynamic Provisioning Framework", "Flex Provisioner", "Provisioning Pod", "Storage Control Plane", "PV created via kubectl",
		"CLAIM_UUID", "CLAIMREF", "PROVISION_TS", "success or error", "no orphaned PV objects"},
	"## Use cases": {"1:", "2:", "2 again:", "3:", "4:", "5:", "6:", "7:", "8:", "9:", "10:"},
	"## Cinder": {"volumeMapper", "iscsi", "rbd", "fc", "FlexVolume", "CHAP", "cephx", "cloud config", "`[Global]`", "`auth-url`", "`username`", "`password`", "`region`", "`tenant-id`", "`tenant-name`",
		"`cinder-endpoint`", "`OS_AUTH_URL`", "`OS_USERNAME`", "`OS_PASSWORD`", "`OS_TENANT_ID`", "`OS_TENANT_NAME`", "`OS_REGION_NAME`", "`OS_CINDER_ENDPOINT`", "cinder create", "reserve",
		"os-initialize_connection", "os-terminate_connection", "unreserve", "delete", "`k8s.io/CloneRequest: default/source-pvc`", "`smartclone`", "`k8s.io/CloneOf`", "`manifests/deploy.yaml`"},
}

// TestDesignIsMapped: every word of the designs has a row, and what the row says is in the code.
func TestDesignIsMapped(t *testing.T) {
	for heading, words := range designWords {
		rows := table(t, section(t, design, heading))
		for _, word := range words {
			if !slices.ContainsFunc(rows, func(row []string) bool { return strings.Contains(row[0], word) }) {
				t.Errorf("%s, %s: no row has %s", design, heading, word)
			}
		}
		for _, row := range rows {
			if len(row) != 2 || row[1] == "" {
				t.Errorf("%s, %s: row %q", design, heading, row)
			}
		}
	}
}

// TestDesignKeys: the keys of this program are keys of the reference, which is compared with the code.
func TestDesignKeys(t *testing.T) {
	known := column(table(t, section(t, "docs/config-reference.md", "## Reserved keys")), 0)
	for _, row := range table(t, section(t, design, "## Keys of the ConfigMap")) {
		for _, word := range spans(row[1]) {
			if !slices.Contains(known, word) && !slices.Contains(reasons(t, "dispatcher/events"), word) {
				t.Errorf("%s: %s is neither a key nor an event", design, word)
			}
		}
	}
}

// TestDesignProperties: the variables are those that a pod of the design's example has.
func TestDesignProperties(t *testing.T) {
	config, faults := configmaps.Parse(designExample(t))
	if len(faults) > 0 {
		t.Fatal(faults.ToAggregate())
	}
	pod, err := podspec.Build(podspec.Attempt{Config: config, Request: contract.Request{Operation: contract.Provision, Identity: contract.Identity{Properties: config.Properties}}}, podspec.Cluster{})
	if err != nil {
		t.Fatal(err)
	}
	var variables []string
	for _, v := range pod.Spec.Containers[0].Env {
		variables = append(variables, v.Name)
	}
	for _, row := range table(t, section(t, design, "## Properties of the container")) {
		if name := spans(row[1])[0]; !slices.Contains(variables, name) {
			t.Errorf("%s: the pod has no %s; it has %v", design, name, variables)
		}
		for _, property := range []string{"zone", "use-nfs-server"} {
			if spans(row[0]) != nil && spans(row[0])[0] == property && spans(row[1])[0] != contract.EnvName(property) {
				t.Errorf("%s: property %s is $%s, not $%s", design, property, contract.EnvName(property), spans(row[1])[0])
			}
		}
	}
}

// designExample is the ConfigMap of the page.
func designExample(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict([]byte(fenced(t, section(t, design, "## The example"), "yaml")), cm); err != nil {
		t.Fatal(err)
	}
	return cm
}

// TestDesignUseCases: each folder of a use case has its rows.
func TestDesignUseCases(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(root, "examples/use-case-*"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("%v, %v", folders, err)
	}
	text := section(t, design, "## Use cases")
	for _, folder := range folders {
		if name := "`examples/" + filepath.Base(folder) + "`"; !strings.Contains(text, name) {
			t.Errorf("%s lacks %s", design, name)
		}
	}
}

// TestDesignOfCinder: keys, variables and calls are in the image's code, and the parameter in its reference.
func TestDesignOfCinder(t *testing.T) {
	var code strings.Builder
	for _, name := range walk(t, func(name string) bool {
		return strings.HasPrefix(name, "images/cinder-iscsi/") && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
	}) {
		code.WriteString(read(t, name))
	}
	words := regexp.MustCompile("`(?:OS_[A-Z_]+|[a-z]+-[a-z]+|username|password|region|smartclone)`|os-[a-z_]+connection")
	for _, row := range table(t, section(t, design, "## Cinder")) {
		for _, word := range words.FindAllString(row[0], -1) {
			if word = strings.Trim(word, "`"); !strings.Contains(code.String(), `"`+word+`"`) && !strings.Contains(code.String(), word+" ") {
				t.Errorf("%s: images/cinder-iscsi does not know %s", design, word)
			}
		}
	}
	for _, name := range []string{contract.AnnCloneRequest, contract.AnnCloneOf, contract.ParameterSmartClone} {
		if !strings.Contains(section(t, design, "## Cinder"), name) {
			t.Errorf("%s lacks %s", design, name)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "examples/cinder-iscsi/kustomization.yaml")); err != nil {
		t.Error(err)
	}
}

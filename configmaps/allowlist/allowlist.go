// Package allowlist reads the ConfigMap with which administrators allow what a provisioner's pods may do and create.
//
// It owns the ConfigMap's name and lines, and what a class lacks there. It may import configmaps and sdk/contract, and
// must never read or write a cluster. The admission policies enforce the lines, and this package reads them by the same
// rules.
package allowlist

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Name is the ConfigMap's, in the dispatcher's namespace.
const Name = "flex-pv-policy"

// Lines are the lines of one ServiceAccount, by their setting, such as storageClasses.
type Lines map[string]string

// Of returns an account's lines in the ConfigMap's data.
func Of(data map[string]string, account string) Lines {
	lines := Lines{}
	for key, value := range data {
		if setting, found := strings.CutPrefix(key, account+"."); found && !strings.Contains(setting, ".") {
			lines[setting] = value
		}
	}

	return lines
}

func (l Lines) items(setting string) []string {
	items := strings.Split(strings.ReplaceAll(l[setting], " ", ""), ",")

	return slices.DeleteFunc(items, func(item string) bool { return item == "" })
}

// Covers reports whether the account may make volumes of the class.
func (l Lines) Covers(class string) bool {
	return slices.ContainsFunc(l.items("storageClasses"), func(entry string) bool { return matches(entry, class) })
}

// matches reports whether an entry is the class, or a prefix of it that ends in "-*" or ".*".
func matches(entry, class string) bool {
	prefix, open := strings.CutSuffix(entry, "*")
	oneStar := open && !strings.Contains(prefix, "*")
	separated := strings.HasSuffix(prefix, "-") || strings.HasSuffix(prefix, ".")
	if oneStar && separated && len(prefix) >= 2 {
		return strings.HasPrefix(class, prefix)
	}

	return entry == class
}

// Lack is a setting, and what it lacks, such as "hostPaths" and "does not have /mnt, which host-path asks for".
type Lack struct{ Setting, What string }

// Lacks lists what the account lacks to serve a class with its ConfigMap.
func (l Lines) Lacks(class string, config *configmaps.Config) (lacks []Lack) {
	lack := func(setting, format string, args ...any) {
		lacks = append(lacks, Lack{setting, fmt.Sprintf(format, args...)})
	}
	if !l.Covers(class) {
		lack("storageClasses", "does not have %s: its pods may create no volume", class)
	}

	types := l.items("volumeTypes")
	if len(types) == 0 {
		lack("volumeTypes", "is missing: its pods may create no volume")
	}

	needs := []struct{ kind, setting string }{
		{"hostPath", "pathPrefixes"}, {"local", "pathPrefixes"}, {"csi", "csiDrivers"},
	}
	staged := len(l.items("stagers")) > 0
	ofImages := slices.Contains(l.items("stagers"), contract.StagerLoop)
	if ofImages && len(l.items("pathPrefixes")) == 0 {
		lack("pathPrefixes", "is missing: images of flex-node need it")
	}

	for _, need := range needs {
		granted := len(l.items(need.setting)) > 0 || need.kind == "csi" && staged
		if slices.Contains(types, need.kind) && !granted {
			lack(need.setting, "is missing: volumes of type %s need it", need.kind)
		}
	}

	for _, dir := range config.HostPaths {
		if !l.mountable(dir) {
			lack("hostPaths", "does not have %s, which host-path asks for", dir)
		}
	}

	for _, asked := range config.Privileges() {
		if !slices.Contains(l.items("privileges"), asked) {
			lack("privileges", "does not have %s, which the ConfigMap asks for", asked)
		}
	}

	return lacks
}

// Refuses lists what the account lacks to create a volume of the class and a type, by the rules of the admission
// policy. place is server:path of nfs, the path of hostPath and local, and empty for other types.
func (l Lines) Refuses(class, kind, place string, mountOptions []string) (lacks []Lack) {
	if !l.Covers(class) {
		lacks = append(lacks, Lack{"storageClasses", "does not have " + class})
	}

	if !slices.Contains(l.items("volumeTypes"), kind) {
		lacks = append(lacks, Lack{"volumeTypes", "does not have " + kind})
	}

	below := func(setting string, needed bool) {
		if (needed || len(l.items(setting)) > 0) && len(l.Roots(kind, place)) == 0 {
			lacks = append(lacks, Lack{setting, fmt.Sprintf("has no directory with %q below it", place)})
		}
	}
	switch kind {
	case "nfs":
		below("nfsExports", false)
	case "hostPath", "local":
		below("pathPrefixes", true)
	}

	for _, option := range mountOptions {
		if !slices.Contains(l.items("mountOptions"), option) {
			lacks = append(lacks, Lack{"mountOptions", fmt.Sprintf("does not have %q", option)})
		}
	}

	return lacks
}

// Roots lists the directories of the allow-list that have the place of a volume of the type below them. The place has
// to be clean.
func (l Lines) Roots(kind, place string) []string {
	setting := map[string]string{"nfs": "nfsExports", "hostPath": "pathPrefixes", "local": "pathPrefixes"}[kind]

	return slices.DeleteFunc(l.items(setting), func(dir string) bool {
		rest, below := strings.CutPrefix(place, strings.TrimSuffix(dir, "/")+"/")
		return !below || rest == ""
	})
}

// RefusesSecretOf lists what the account lacks for volumes that refer to a Secret of the namespace.
func (l Lines) RefusesSecretOf(namespace string) []Lack {
	if slices.Contains(l.items("secretNamespaces"), namespace) {
		return nil
	}

	return []Lack{{"secretNamespaces", fmt.Sprintf("does not have %q", namespace)}}
}

// mountable reports whether the account's pods may mount the directory. An entry with :ro allows it read-only.
func (l Lines) mountable(dir configmaps.HostPath) bool {
	return slices.ContainsFunc(l.items("hostPaths"), func(granted string) bool {
		granted, only := strings.CutSuffix(granted, ":ro")
		return (dir.ReadOnly || !only) && dir.Path == strings.TrimSuffix(granted, "/")
	})
}

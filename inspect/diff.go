package inspect

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Change is the change of one key of a ConfigMap, and its effect.
type Change struct {
	Key string `json:"key"`
	// What says whether the key is added, removed or changed, with the values of reserved keys. It shows no value of a property.
	What string `json:"what"`
	// NewVolumes and Existing are the effects on volumes that are made after the edit, and on those that exist.
	NewVolumes string `json:"newVolumes"`
	Existing   string `json:"existing"`
}

// Diff lists the changes of an edit of a ConfigMap.
type Diff struct {
	ConfigMap string   `json:"configMap"`
	Classes   []string `json:"classes"`
	// Volumes is the number of volumes of these classes, Waiting that of claims without one.
	Volumes int      `json:"volumes"`
	Waiting int      `json:"waiting"`
	Changes []Change `json:"changes"`
	// New reports whether the cluster has no ConfigMap of the name.
	New bool `json:"new,omitempty"`
	// Unplaced is the number of volumes whose record does not say what their pod had mounted, if the edit changes what pods mount.
	Unplaced int `json:"unplaced,omitempty"`
	// Undone is the number of waiting claims whose earlier attempts may have made storage. An undo removes it first.
	Undone int `json:"undone,omitempty"`
}

// DiffOf compares a ConfigMap with the one of its name in the cluster. The error says what is wrong with either.
func (o *Objects) DiffOf(edited *corev1.ConfigMap) (*Diff, error) {
	now, faults := configmaps.Parse(edited)
	if len(faults) > 0 {
		return nil, fmt.Errorf("ConfigMap %s as edited: %w", edited.Name, faults.ToAggregate())
	}
	d := &Diff{ConfigMap: edited.Name, Changes: []Change{}}
	for _, class := range o.Classes {
		served, _ := classes.ServedAs(class.Name, class, o.Dispatcher.Provisioner)
		if class.Provisioner == o.Dispatcher.Provisioner && served == now.StorageClass {
			d.Classes = append(d.Classes, class.Name)
		}
	}
	for _, v := range o.Volumes {
		if slices.Contains(d.Classes, podspec.ClassOf(v)) && o.ownVolume(v) {
			d.Volumes++
			if snapshot.BeforePlaces(v) {
				d.Unplaced++
			}
		}
	}
	old := o.configMap(edited.Name)
	for _, uid := range o.pendingUIDs() {
		if s := o.StateOf(uid); s.NotOurs == "" && s.Operation == string(contract.Provision) && slices.Contains(d.Classes, s.Class) {
			d.Waiting++
			if _, suspected := snapshot.Suspect(o.snapshot(uid).Of(contract.Provision)); suspected {
				d.Undone++
			}
		}
	}
	if old == nil {
		d.New, d.Unplaced = true, 0
		return d, nil
	}
	before, faults := configmaps.Parse(old)
	d.compare(old.Data, edited.Data, before, len(faults) == 0, now)
	if !slices.ContainsFunc(d.Changes, func(c Change) bool { return c.NewVolumes == anotherIdentity }) {
		d.Undone = 0
	}
	if !slices.ContainsFunc(d.Changes, func(c Change) bool { return c.Existing == samePlace }) {
		d.Unplaced = 0
	}
	return d, nil
}

// Effects of a changed property, and of a key by which pods mount something.
const (
	anotherIdentity = "from now on, in their record"
	samePlace       = "keep what they were made with; no storage is moved"
)

func (d *Diff) compare(old, edited map[string]string, before *configmaps.Config, valid bool, now *configmaps.Config) {
	keys := maps.Clone(old)
	maps.Copy(keys, edited)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		was, had := old[key]
		is, has := edited[key]
		if had == has && was == is {
			continue
		}
		c := Change{Key: key, What: "changed"}
		switch {
		case !had:
			c.What = "added"
		case !has:
			c.What = "removed"
		}
		_, property := now.Properties[key]
		if valid && !property {
			_, property = before.Properties[key]
		}
		if property {
			c.propertyChanged()
		} else {
			c.keyChanged(was, is)
		}
		d.Changes = append(d.Changes, c)
	}
}

// propertyChanged sets the effect of a changed property. An existing volume keeps the properties of its record, which find its storage.
func (c *Change) propertyChanged() {
	c.NewVolumes = anotherIdentity
	switch c.What {
	case "added":
		c.Existing = "get it when they are deleted or expanded, unless their record has one of that name"
	case "removed":
		c.Existing = "keep it"
	default:
		c.Existing = "keep the value that they were made with"
	}
}

// keyChanged sets the effect of a changed reserved key. Every pod is built from the ConfigMap of its time.
func (c *Change) keyChanged(was, is string) {
	c.NewVolumes, c.Existing = "from now on", "when they are deleted or expanded"
	switch c.Key {
	case "provision":
		c.Existing = "not concerned"
	case "delete":
		c.NewVolumes, c.Existing = "when they are deleted", "when they are deleted"
	case "expand", "expandable":
		c.NewVolumes, c.Existing = "when they are expanded", "when they are expanded"
		if is == "" || is == "false" {
			c.Existing = "cannot be expanded any more"
		}
	case "mount-claims", "host-path", "devices":
		c.NewVolumes, c.Existing = anotherIdentity, samePlace
	case "access-modes", "volume-modes":
		c.Existing = "not concerned"
	}
	if len(was)+len(is) <= maxShownValue && c.What == "changed" {
		c.What = podspec.Clean(fmt.Sprintf("%q becomes %q", was, is))
	}
}

// maxShownValue is the limit in bytes on the values of a key that are shown.
const maxShownValue = 160

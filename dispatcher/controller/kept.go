package controller

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/classes"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
)

// The last good version of a ConfigMap is kept as a ControllerRevision, so that a class whose ConfigMap was broken by an edit goes on
// after a restart of the dispatcher. It is written once the dispatcher has judged a changed ConfigMap good, and read where a ConfigMap
// with faults has no good version in memory. The new version is created before the old one is deleted: a dispatcher that is killed in
// between leaves both, of which the later counts.

const (
	// keepTimeout bounds the requests for one ConfigMap: others wait meanwhile.
	keepTimeout = 10 * time.Second
	// keepAgain is when they are made again after an error.
	keepAgain = 30 * time.Second
	// remindPeriod is how often it is said that a class runs on an older version. The API server keeps events for an hour.
	remindPeriod = time.Hour
)

// lastKept is the version that is kept of the first of a class's ConfigMaps that has one, or nil. What is kept for another class, or has
// faults by the rules of this program, counts as none.
func (c *Controller) lastKept(class string, of []*corev1.ConfigMap) *configmaps.Config {
	for _, cm := range of {
		for _, revision := range c.Cache.RevisionsOf(cm) {
			config, err := configmaps.ParseRevision(revision, cm)
			if err != nil {
				c.Recorder.Log("Passed over a kept version", "controllerRevision", klog.KObj(revision), "err", err)
			} else if config.StorageClass == class {
				return config
			}
		}
	}
	return nil
}

// keep keeps a version that was judged good, and nothing else of its ConfigMap.
func (c *Controller) keep(ctx context.Context, cm *corev1.ConfigMap, config *configmaps.Config) error {
	name, known := configmaps.RevisionName(cm, config), c.Cache.RevisionsOf(cm)
	number, missing := int64(1), true
	for _, revision := range known {
		number = max(number, revision.Revision+1)
		missing = missing && revision.Name != name
	}
	if !missing && len(known) == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	// A dispatcher that is the leader no more, or whose cache is old, would put an old version in the place of a new one.
	now, err := c.Client.CoreV1().ConfigMaps(cm.Namespace).Get(ctx, cm.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("get configmap %s/%s: %w", cm.Namespace, cm.Name, err)
	case now.UID != cm.UID || now.ResourceVersion != cm.ResourceVersion:
		return nil // its change leads to another judgement
	}
	if missing {
		revision, err := configmaps.NewRevision(cm, config, number)
		if err != nil {
			c.Recorder.Log("Keep no version", "configMap", klog.KObj(cm), "err", err)
			return nil
		}
		if err := c.writer.KeepRevision(ctx, revision); err != nil {
			return err
		}
	}
	for _, revision := range known {
		if revision.Name == name {
			continue
		}
		if err := c.writer.DropRevision(ctx, revision); err != nil {
			return err
		}
	}
	return nil
}

// keepGood keeps what was judged good last of a class's ConfigMap.
func (c *Controller) keepGood(ctx context.Context, class string, j classes.Judgement) (again time.Duration) {
	if j.Good == nil {
		return 0
	}
	if err := c.keep(ctx, j.Of, j.Good); err != nil {
		klog.FromContext(ctx).Error(err, "Keep the last good version again later", "StorageClass", class)
		return keepAgain
	}
	return 0
}

// outdated says on a ConfigMap that the class runs on an older version of it. Beside a second ConfigMap of the class the present one
// stays in force.
func outdated(class string, maps []*corev1.ConfigMap, j classes.Judgement, inForce *configmaps.Config) (classes.Complaint, bool) {
	if j.Good != nil || inForce == nil {
		return classes.Complaint{}, false
	}
	about := maps[0]
	for _, cm := range maps {
		if cm.Name == inForce.Name {
			about = cm
		}
	}
	return classes.Complaint{About: about, Reason: events.ReasonConfigOutdated, Text: fmt.Sprintf("class %q runs on version %s of ConfigMap %s, the last valid one; version %s has no effect until what is wrong is corrected",
		class, inForce.ResourceVersion, inForce.Name, about.ResourceVersion)}, about.Name != inForce.Name || about.ResourceVersion != inForce.ResourceVersion
}

// revisionChanged has the ConfigMap judged again that a kept version is of, so that one that somebody deletes is kept anew.
func (c *Controller) revisionChanged(revision *appsv1.ControllerRevision, _ bool) {
	if owner := metav1.GetControllerOf(revision); owner != nil {
		if cm := c.Cache.ConfigMap(owner.Name); cm != nil {
			c.judging.Add(configmaps.ClassName(cm))
		}
	}
}

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
)

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
		if err != nil { // an older version would count as the last good one
			c.Recorder.Log("Keep no version", "configMap", klog.KObj(cm), "err", err)
		} else if err := c.writer.KeepRevision(ctx, revision); err != nil {
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
		klog.FromContext(ctx).Error(err, "Keep the last good version again later", "class", class)
		return keepAgain
	}
	return 0
}

// revisionChanged has the ConfigMap judged again that a kept version is of, so that one that somebody deletes is kept anew.
func (c *Controller) revisionChanged(revision *appsv1.ControllerRevision, _ bool) {
	if owner := metav1.GetControllerOf(revision); owner != nil {
		if cm := c.Cache.ConfigMap(owner.Name); cm != nil {
			c.judging.Add(configmaps.ClassName(cm))
		}
	}
}

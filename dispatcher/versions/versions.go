package versions

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reader"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/writer"
)

// timeout bounds the requests for one ConfigMap: others wait meanwhile.
const timeout = 10 * time.Second

// Keeper keeps the last good version of a ConfigMap as a ControllerRevision, so that a class whose ConfigMap was broken
// by an edit goes on after a restart of the dispatcher.
type Keeper struct {
	Reader reader.Reader
	Writer writer.Writer
}

// Keep saves a valid version of a ConfigMap, and deletes the earlier ones. saved are those that exist. The new one is
// created before an old one is deleted: a dispatcher that is killed in between leaves both, of which the later counts.
func (k Keeper) Keep(
	ctx context.Context, cm *corev1.ConfigMap, config *configmaps.Config, saved []*appsv1.ControllerRevision,
) error {
	name, number, missing := configmaps.RevisionName(cm, config), int64(1), true
	for _, revision := range saved {
		number = max(number, revision.Revision+1)
		missing = missing && revision.Name != name
	}

	if !missing && len(saved) == 1 {
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	// A dispatcher that is no longer the leader, or whose cache is old, would replace a new version by an old one. A
	// change of the ConfigMap syncs the class again.
	now, err := k.Reader.ConfigMap(ctx, cm.Name)
	if now == nil || now.UID != cm.UID || now.ResourceVersion != cm.ResourceVersion {
		return err
	}

	if missing {
		revision, err := configmaps.NewRevision(cm, config, number)
		if err != nil { // an older version would count as the last good one
			klog.FromContext(ctx).Info("Keep no version", "configMap", klog.KObj(cm), "err", err)
		} else if err := k.Writer.CreateRevision(ctx, revision); err != nil {
			return err
		}
	}

	for _, revision := range saved {
		if revision.Name == name {
			continue
		}

		if err := k.Writer.DeleteRevision(ctx, revision); err != nil {
			return err
		}
	}

	return nil
}

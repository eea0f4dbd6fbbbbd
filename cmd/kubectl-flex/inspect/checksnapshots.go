package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// controllerGrace is how long the snapshot-controller may take to look after a VolumeSnapshot before it is said to be
// away.
const controllerGrace = time.Minute

// checkSnapshots says what is missing for the classes that have snapshots. Claims get volumes without it.
func (o *Objects) checkSnapshots() []Finding {
	if !o.reads(ConfigMaps, Classes, Snapshots) {
		return nil
	}

	const install = "install the CustomResourceDefinitions and the snapshot-controller: docs/snapshots.md#install"
	var able []string
	for _, name := range o.ClassNames() {
		if config := o.serving(name); config != nil && config.Snapshots {
			able = append(able, podspec.OneLine(name))
		}
	}

	who := "no class has snapshots"
	if len(able) > 0 {
		who = "classes with snapshots: " + strings.Join(able, ", ")
	}

	api := Finding{ResultOk, "API " + snapshotv1.SchemeGroupVersion.String(), "served; " + who, ""}
	if lacks := o.Snapshots.Lacks; len(lacks) > 0 {
		api.Message = fmt.Sprintf("the cluster lacks %s; %s", strings.Join(lacks, ", "), who)
		if len(able) > 0 {
			api.Result, api.Do = ResultWarning, install
		}

		return []Finding{api}
	}

	own := o.Own()
	if len(able) == 0 && len(own.Requests) == 0 {
		return []Finding{api}
	}

	list := append([]Finding{api}, o.checkSnapshotClasses(own.SnapshotClasses)...)

	return append(list, o.checkController(own.Requests))
}

func (o *Objects) checkSnapshotClasses(own []*snapshotv1.VolumeSnapshotClass) (list []Finding) {
	if len(own) == 0 {
		return []Finding{{ResultWarning, "VolumeSnapshotClass", "none has the driver " + o.driver() + ", and VolumeSnapshots " +
			"have to name one", "create it: docs/snapshots.md#install"}}
	}

	for _, class := range own {
		f := Finding{ResultOk, "VolumeSnapshotClass " + class.Name, fmt.Sprintf("has the driver %s and the policy %s", class.Driver,
			class.DeletionPolicy), ""}
		if len(class.Parameters) > 0 {
			f.Result, f.Message, f.Do = ResultWarning, "has parameters, and provisioner pods know none", "create it again without them"
		}

		list = append(list, f)
	}

	return list
}

// checkController says what the VolumeSnapshots show of the snapshot-controller. Nothing else does for certain: it may
// have any name and namespace.
func (o *Objects) checkController(requests []*snapshotv1.VolumeSnapshot) Finding {
	f := Finding{ResultOk, "snapshot-controller", "not known: the first VolumeSnapshot shows whether it runs", ""}
	for _, r := range requests {
		age := o.Now.Sub(r.CreationTimestamp.Time)
		switch {
		case slices.Contains(r.Finalizers, contract.SnapshotFinalizer):
			if f.Result == ResultOk {
				f.Message = fmt.Sprintf("looks after VolumeSnapshots, such as %s/%s", r.Namespace, r.Name)
			}
		case age > controllerGrace:
			f.Result, f.Do = ResultWarning, "see that it runs, and what its log says"
			f.Message = fmt.Sprintf("has not looked after VolumeSnapshot %s/%s for %s", r.Namespace, r.Name, duration.HumanDuration(age))
		}
	}

	return f
}

package flow

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// zone is the availability zone of a new volume: the class's, or one of its allowedTopologies. If the scheduler selected a node, it is
// that node's zone. The default is not "nova": an empty zone leaves the choice to Cinder. A clone, and a restored snapshot, is
// in the zone of its original, since most clouds allow no other one.
func (f *Flow) zone(ctx context.Context, source *origin) (string, error) {
	label, zones, err := allowedZones(f.Request.AllowedTopologies)
	if err != nil {
		return "", sdk.Refuse(err)
	}
	if source != nil {
		return f.zoneOf(source, zones)
	}
	if node := f.Request.SelectedNode; node != "" && len(zones) > 1 {
		value, err := f.Cluster.NodeLabel(ctx, node, label)
		if err != nil {
			return "", err
		}
		if !slices.Contains(zones, value) {
			return "", sdk.Refuse(fmt.Errorf("the pod of the claim is to run on node %s with label %s=%q, but allowedTopologies has only %s; correct one of them",
				node, label, value, strings.Join(zones, ", ")))
		}
		zones = []string{value}
	}
	zone, err := chooseZone(f.Parameters.Availability, zones, f.Request.VolumeName)
	if err != nil {
		return "", sdk.Refuse(err)
	}
	return zone, nil
}

func (f *Flow) zoneOf(source *origin, zones []string) (string, error) {
	if wanted := f.Parameters.Availability; wanted != "" {
		zones = []string{wanted}
	}
	at := source.volume.AvailabilityZone
	if len(zones) > 0 && !slices.Contains(zones, at) {
		return "", source.refuse("it is in availability zone %s, and this class makes volumes in %s; use a class of the "+
			"same zone", form.Quote(at), strings.Join(zones, ", "))
	}

	return at, nil
}

// allowedZones is the label of allowedTopologies, and all its values.
func allowedZones(terms []map[string][]string) (label string, zones []string, err error) {
	for _, term := range terms {
		keys := slices.Sorted(maps.Keys(term))
		if len(keys) != 1 || label != "" && keys[0] != label {
			return "", nil, fmt.Errorf("allowedTopologies name the labels %s: cinder knows zones and nothing else; name one label, whose values are cinder's availability zones",
				strings.Join(append(keys, nonEmpty(label)...), ", "))
		}
		label, zones = keys[0], append(zones, term[keys[0]]...)
	}
	if label != "" && len(zones) == 0 {
		return "", nil, errors.New("allowedTopologies have no values; name cinder's availability zones")
	}
	slices.Sort(zones)
	return label, slices.Compact(zones), nil
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// chooseZone is the class's zone, or else one of zones by a hash of the volume's name, so that it is the same in each run.
func chooseZone(wanted string, zones []string, volume string) (string, error) {
	switch {
	case len(zones) == 0 || slices.Contains(zones, wanted):
		return wanted, nil
	case wanted != "":
		return "", fmt.Errorf("parameter availability is %s, but allowedTopologies has only %s; correct one of them", wanted, strings.Join(zones, ", "))
	}
	hash := fnv.New32a()
	hash.Write([]byte(volume))
	return zones[int(hash.Sum32()%uint32(len(zones)))], nil
}

package flow

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// TestCreateOpts: the volume that is asked for, as Cinder reads it.
func TestCreateOpts(t *testing.T) {
	const other = "dae46dbd-d712-48fe-af72-de0872d24141"
	metadata := func(more string) string {
		return `{"flex-provisioner.io/claim": "team-a/data", "flex-provisioner.io/claim-uid": "` + claimUID +
			`", "flex-provisioner.io/cluster": "kubernetes", "flex-provisioner.io/storage-class": "silver"` + more + `}`
	}
	hint := func(hints string) string {
		return `{"volume": {"size": 10, "name": "` + name + `", "metadata": ` + metadata("") + `}, "OS-SCH-HNT:scheduler_hints": ` + hints + `}`
	}
	type row struct {
		parameters map[string]string
		change     func(*contract.Request)
		want       string
	}
	playEach(t, map[string]row{
		"plain": {nil, nil, `{"volume": {"size": 10, "name": "pvc-` + claimUID + `", "metadata": ` + metadata("") + `}}`},
		"class": {map[string]string{"type": "fast", "availability": "west", "metadata": "team=a"}, nil,
			`{"volume": {"size": 10, "name": "pvc-` + claimUID + `", "volume_type": "fast", "availability_zone": "west", "metadata": ` + metadata(`, "team": "a"`) + `}}`},
		"rounded up": {nil, func(r *contract.Request) { r.SizeBytes++ }, `{"volume": {"size": 11, "name": "pvc-` + claimUID + `", "metadata": ` + metadata("") + `}}`},
		"long names": {nil, func(r *contract.Request) { r.Claim.Name = strings.Repeat("n", 253) },
			`{"volume": {"size": 10, "name": "pvc-` + claimUID + `", "metadata": ` + strings.Replace(metadata(""), "data", strings.Repeat("n", 248), 1) + `}}`},
		"no class": {nil, func(r *contract.Request) { r.StorageClass = "" },
			`{"volume": {"size": 10, "name": "pvc-` + claimUID + `", "metadata": ` + strings.Replace(metadata(""), "silver", "", 1) + `}}`},
		"same host":      {map[string]string{"sameHost": other}, nil, hint(`{"same_host": ["` + other + `"]}`)},
		"different host": {map[string]string{"differentHost": other}, nil, hint(`{"different_host": ["` + other + `"]}`)},
		"both hosts":     {map[string]string{"sameHost": other, "differentHost": id}, nil, hint(`{"same_host": ["` + other + `"], "different_host": ["` + id + `"]}`)},
		"query":          {map[string]string{"schedulerQuery": `[">=", "$free_capacity_gb", 100]`}, nil, hint(`{"query": "[\">=\", \"$free_capacity_gb\", 100]"}`)},
	}, func(s *scene, c row) {
		s.parameters = c.parameters
		if c.change != nil {
			c.change(&s.request)
		}
		made, err := s.provision()
		s.want(err, 0, "")
		if size := s.cinder.Volumes()[0].Size; made.Capacity.Value() != int64(size)*gib {
			s.t.Errorf("cinder made %d GiB, and the volume says %s", size, made.Capacity.String())
		}
		var got, want any
		body := s.cinder.Calls().Of(callCreate)[0].Body
		if json.Unmarshal([]byte(body), &got) != nil || json.Unmarshal([]byte(c.want), &want) != nil || !reflect.DeepEqual(got, want) {
			s.t.Errorf("it sent\n%s\nwant\n%s", body, c.want)
		}
	}, fake.WithType(fake.Type{Name: "fast"}), fake.WithZones("nova", "west"))
}

// TestClone: which claims can be cloned, and why others cannot.
func TestClone(t *testing.T) {
	const origin = "pvc-11111111-2222-4333-8444-555555555555"
	const refused = "clone of claim team-a/origin: "
	type row struct {
		source func(*fake.Volume)
		change func(*scene)
		code   int
		err    string
		none   bool // Cinder is not asked for the source
		asked  bool // Cinder is asked for the types
	}
	onCeph := func(s *scene) {
		s.cinder.SetConnection(fake.RBD())
		maps.Copy(s.parameters, map[string]string{"cephClusterID": "c", "cephSecretName": "s", "cephSecretNamespace": "n"})
	}
	playEach(t, map[string]row{
		"same size": {},
		"smaller": {source: func(v *fake.Volume) { v.Size = 9 }, code: 64, err: refused + "it has 9 GiB, and this claim asks for 10: neither Kubernetes nor a " +
			"provisioner pod can grow the file system of the clone; ask for 9Gi, use volumeMode Block, or copy the data to a larger claim"},
		"smaller device": {source: func(v *fake.Volume) { v.Size = 9 }, change: func(s *scene) { s.request.VolumeMode = "Block" }},
		"smaller image":  {source: func(v *fake.Volume) { v.Size = 9 }, change: onCeph},
		"type by its ID": {source: func(v *fake.Volume) { v.Type = "fast" }, change: func(s *scene) { s.parameters["type"] = s.cinder.TypeID("fast") }},
		"another type by its ID": {change: func(s *scene) { s.parameters["type"] = s.cinder.TypeID("fast") }, code: 64,
			err: refused + `it is of volume type "__DEFAULT__", and this class makes fast; use a class of the same type`, asked: true},
		"zone of the source": {source: func(v *fake.Volume) { v.Zone = "west" }, change: func(s *scene) {
			s.request.AllowedTopologies = []map[string][]string{{"zone": {"nova", "west"}}}
		}},
		"another zone": {source: func(v *fake.Volume) { v.Zone = "west" }, change: func(s *scene) {
			s.request.AllowedTopologies = []map[string][]string{{"zone": {"nova"}}}
		}, code: 64, err: refused + `it is in availability zone "west", and this class makes volumes in nova; use a class of the same zone`},
		"another zone by parameter": {source: func(v *fake.Volume) { v.Zone = "west" }, change: func(s *scene) { s.parameters["availability"] = "nova" },
			code: 64, err: refused + `it is in availability zone "west", and this class makes volumes in nova; use a class of the same zone`},
		"in use":      {source: func(v *fake.Volume) { v.Status = "in-use" }},
		"of any type": {source: func(v *fake.Volume) { v.Type = "fast" }},
		"same type":   {source: func(v *fake.Volume) { v.Type = "fast" }, change: func(s *scene) { s.parameters["type"] = "fast" }},
		"another namespace": {change: func(s *scene) { s.request.Source.Namespace = "team-b" }, code: 64, none: true,
			err: "clone of claim team-b/origin: only what is in the same namespace can be the source, and this claim is in team-a"},
		"not allowed": {change: func(s *scene) { s.parameters = nil }, code: 64, none: true,
			err: refused + `class silver does not allow clones; ask its administrator for parameter smartclone: "true"`},
		"not bound": {change: func(s *scene) { s.request.Source.VolumeName = "" }, code: 64, none: true, err: refused + "it is not bound yet"},
		"not ours": {source: func(v *fake.Volume) { v.Metadata = nil }, code: 64,
			err: refused + "its volume " + origin + " is not one of this provisioner in the same cloud and project"},
		"two": {change: func(s *scene) {
			s.cinder.AddVolume(fake.Volume{Name: origin, Project: project, Metadata: map[string]string{metaClaimUID: origin[4:]}})
		}, code: 64, err: refused + "its volume " + origin + " is not one of this provisioner in the same cloud and project"},
		"larger": {source: func(v *fake.Volume) { v.Size = 11 }, code: 64, err: refused + "it has 11 GiB, and a clone cannot be smaller; ask for at least that"},
		"another type": {change: func(s *scene) { s.parameters["type"] = "fast" }, code: 64,
			err: refused + `it is of volume type "__DEFAULT__", and this class makes fast; use a class of the same type`},
		"not ready": {source: func(v *fake.Volume) { v.Status = "backing-up" }, code: 75, err: refused + "cinder volume " + id + " is backing-up"},
		"not found": {change: func(s *scene) { s.cinder.Fault(fake.On(callFind).Nth(2).Refuse(403, "no")) }, code: 64,
			err: "find " + origin + ": no (HTTP 403)"},
	}, func(s *scene, c row) {
		v := fake.Volume{ID: id, Name: origin, Size: 10, Project: project, Metadata: map[string]string{metaClaimUID: origin[4:]}}
		if c.source != nil {
			c.source(&v)
		}
		s.cinder.AddVolume(v)
		s.parameters = map[string]string{"smartclone": "true"}
		s.request.Source = &contract.Source{Namespace: "team-a", Name: "origin", VolumeName: origin}
		if c.change != nil {
			c.change(s)
		}
		made, err := s.provision()
		s.want(err, c.code, c.err)
		switch {
		case c.none:
			s.wantCalls(callFind)
		case c.asked:
			s.wantCalls(callFind, callFind, callTypes)
		case c.err != "":
			s.wantCalls(callFind, callFind)
		default:
			if got := s.cinder.Volume(name).SourceVolume; got != id || made.Annotations[AnnCloneOf] != "team-a/origin" {
				s.t.Errorf("its source is %q, its annotations %v", got, made.Annotations)
			}
		}
		if err == nil && s.cinder.Volume(name).Zone != s.cinder.Volume(id).Zone {
			s.t.Errorf("it is in zone %s", s.cinder.Volume(name).Zone)
		}
	}, fake.WithType(fake.Type{Name: "fast"}), fake.WithZones("nova", "west"))
}

// TestReaders: a clone that several nodes read is read-only on each: the kubelet heeds the mount option alone, and not the source.
func TestReaders(t *testing.T) {
	const origin = "pvc-11111111-2222-4333-8444-555555555555"
	type row struct {
		modes      []string
		volumeMode string
		readOnly   bool
	}
	playEach(t, map[string]row{
		"readers":     {[]string{"ReadOnlyMany"}, "", true},
		"one writer":  {[]string{"ReadWriteOnce"}, "", false},
		"raw readers": {[]string{"ReadOnlyMany"}, "Block", false},
	}, func(s *scene, c row) {
		s.cinder.AddVolume(fake.Volume{ID: id, Name: origin, Size: 10, Project: project, Metadata: map[string]string{metaClaimUID: origin[4:]}})
		s.parameters = map[string]string{"smartclone": "true", "initiatorMode": "node"}
		s.properties = map[string]string{"initiators": "node-a=iqn.1994-05.com.redhat:a"}
		s.request.Source = &contract.Source{Namespace: "team-a", Name: "origin", VolumeName: origin}
		s.request.AccessModes, s.request.VolumeMode = c.modes, c.volumeMode
		made, err := s.provision()
		s.want(err, 0, "")
		if ro := slices.Equal(made.MountOptions, []string{"ro"}); ro != c.readOnly || made.Source.ISCSI.ReadOnly != c.readOnly {
			s.t.Errorf("mount options %v, source %+v", made.MountOptions, made.Source.ISCSI)
		}
	})
}

// TestOneNameForMany: nodes that log in to one target with one name end each other's sessions.
func TestOneNameForMany(t *testing.T) {
	const initiator = "iqn.2026-01.com.example:c1"
	type row struct {
		parameters map[string]string
		modes      []string
		name       string
	}
	playEach(t, map[string]row{
		"per-volume": {nil, []string{"ReadWriteMany"}, "iqn.2026-01.io.flex-provisioner:" + name},
		"fixed":      {map[string]string{"initiatorMode": "fixed", "initiator": initiator}, []string{"ReadOnlyMany", "ReadWriteOnce"}, initiator},
		"node":       {map[string]string{"initiatorMode": "node"}, []string{"ReadWriteMany"}, ""},
		"one node":   {nil, []string{"ReadWriteOnce"}, ""},
	}, func(s *scene, c row) {
		s.parameters = map[string]string{"type": "shared"}
		maps.Copy(s.parameters, c.parameters)
		s.properties = map[string]string{"initiators": "node-a=iqn.1994-05.com.redhat:a"}
		s.request.AccessModes, s.request.VolumeMode = c.modes, "Block"
		_, err := s.provision()
		if c.name == "" {
			s.want(err, 0, "")
			return
		}
		made := s.cinder.Calls().Of(callConnect)[0].ID
		s.want(err, 64, "map iscsi connection of cinder volume "+made+": several nodes would log in as "+c.name+
			", and end each other's sessions; use a class with initiatorMode node, or ask for ReadWriteOnce")
		s.wantVolumes()
	}, fake.WithType(fake.Type{Name: "shared", ExtraSpecs: map[string]string{"multiattach": "<is> True"}}))
}

// TestManyWriters: several nodes may write to volumes of types that say so. Other claims cost no call.
func TestManyWriters(t *testing.T) {
	const refused = `access mode ReadWriteMany: volume type %s does not say multiattach="<is> True"; use a class whose type does, or ask for ReadWriteOnce`
	type row struct {
		typ, call string
		prepare   func(*scene)
		code      int
		err       string
	}
	playEach(t, map[string]row{
		"many":    {"shared", callTypes, func(*scene) {}, 0, ""},
		"one":     {"fast", callTypes, func(*scene) {}, 64, fmt.Sprintf(refused, "fast")},
		"default": {"", callDefault, func(*scene) {}, 64, fmt.Sprintf(refused, "that is cinder's default")},
		"unknown": {"none", callTypes, func(*scene) {}, 64, `cinder has no volume type "none"`},
		"failing": {"shared", callTypes, refuse(callTypes, 500, "broken"), 1, "volume types shared: broken (HTTP 500)"},
	}, func(s *scene, c row) {
		s.request.AccessModes, s.request.VolumeMode = []string{"ReadWriteOnce", "ReadWriteMany"}, "Block"
		s.parameters = map[string]string{"initiatorMode": "node"}
		s.properties = map[string]string{"initiators": "node-a=iqn.1994-05.com.redhat:a"}
		if c.typ != "" {
			s.parameters["type"] = c.typ
		}
		c.prepare(s)
		_, err := s.provision()
		s.want(err, c.code, c.err)
		if calls := s.cinder.Calls(); calls[0].Op != c.call || c.err != "" && len(calls) != 1 {
			s.t.Errorf("it called\n%s", calls)
		}
	}, fake.WithType(fake.Type{Name: "fast"}), fake.WithType(fake.Type{Name: "shared", ExtraSpecs: map[string]string{"multiattach": "<is> True"}}))
}

// TestZone: a new volume goes to the zone of the node that the scheduler chose, or to one of the class's.
func TestZone(t *testing.T) {
	const label = "topology.kubernetes.io/zone"
	const otherLabels = "allowedTopologies name the labels rack, " + label + ": cinder knows zones and nothing else; name one label, whose values are cinder's availability zones"
	type terms = []map[string][]string
	in := func(zones ...string) terms { return terms{{label: zones}} }
	node := func(name, zone string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: zone}}}
	}
	type row struct {
		node, availability string
		terms              terms
		prepare            func(*scene)
		code               int
		want               string // the zone, or the error
	}
	playEach(t, map[string]row{
		"chosen":      {node: "node-b", terms: in("east", "west"), want: "west"},
		"another":     {node: "node-a", terms: in("east", "west"), want: "east"},
		"not chosen":  {terms: in("east", "west"), want: "east"}, // of the name's hash
		"one zone":    {node: "node-c", terms: in("east"), want: "east"},
		"two terms":   {terms: terms{{label: {"west"}}, {label: {"east", "west"}}}, want: "east"},
		"of both":     {availability: "west", terms: in("west", "east"), want: "west"},
		"no topology": {node: "node-c", availability: "west", want: "west"},
		"not allowed": {node: "node-c", terms: in("east", "west"), code: 64,
			want: `the pod of the claim is to run on node node-c with label ` + label + `="north", but allowedTopologies has only east, west; correct one of them`},
		"not readable": {node: "node-a", terms: in("east", "west"), prepare: func(s *scene) { s.refuseKubernetes("GET nodes") }, code: 1,
			want: "list nodes: unknown (get nodes)"},
		"two answers": {availability: "west", terms: in("east"), code: 64,
			want: "parameter availability is west, but allowedTopologies has only east; correct one of them"},
		"two labels":             {terms: terms{{label: {"east"}, "rack": {"1"}}}, code: 64, want: otherLabels},
		"two labels, of 2 terms": {terms: terms{{label: {"east"}}, {"rack": {"1"}}}, code: 64, want: otherLabels},
	}, func(s *scene, c row) {
		s.cluster.SetNodes(node("node-a", "east"), node("node-b", "west"), node("node-c", "north"))
		if c.prepare != nil {
			c.prepare(s)
		}
		s.request.SelectedNode, s.request.AllowedTopologies = c.node, c.terms
		if c.availability != "" {
			s.parameters = map[string]string{"availability": c.availability}
		}
		made, err := s.provision()
		if c.code != 0 {
			s.want(err, c.code, c.want)
			return
		}
		s.want(err, 0, "")
		if zone := s.cinder.Volume(name).Zone; zone != c.want {
			s.t.Errorf("it is in zone %s, want %s", zone, c.want)
		}
		if a := made.NodeAffinity; (a == nil) != (c.terms == nil) ||
			a != nil && !reflect.DeepEqual(a.Required.NodeSelectorTerms[0].MatchExpressions, []corev1.NodeSelectorRequirement{{Key: label, Operator: "In", Values: []string{c.want}}}) {
			s.t.Errorf("affinity %v", a)
		}
	}, fake.WithZones("east", "west", "north"))
}

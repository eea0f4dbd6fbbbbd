package flow

import "testing"

func TestAllowedZones(t *testing.T) {
	type terms = []map[string][]string
	const label = "topology.kubernetes.io/zone"
	for _, c := range []struct {
		terms     terms
		wanted    string
		zone, err string
	}{
		{terms: nil},
		{terms: nil, wanted: "west", zone: "west"},
		{terms: terms{{label: {"east"}}}, zone: "east"},
		{terms: terms{{label: {"west", "east"}}}, wanted: "west", zone: "west"},
		{terms: terms{{label: {"west"}}, {label: {"east", "west"}}}, zone: "east"}, // of the name's hash
		{terms: terms{{label: {"east"}}}, wanted: "west", err: "parameter availability is west, but allowedTopologies has only east; correct one of them"},
		{terms: terms{{label: {"east"}, "rack": {"1"}}},
			err: "allowedTopologies name the labels rack, topology.kubernetes.io/zone: cinder knows zones and nothing else; name one label, whose values are cinder's availability zones"},
		{terms: terms{{label: {"east"}}, {"rack": {"1"}}},
			err: "allowedTopologies name the labels rack, topology.kubernetes.io/zone: cinder knows zones and nothing else; name one label, whose values are cinder's availability zones"},
		{terms: terms{{label: nil}}, err: "allowedTopologies have no values; name cinder's availability zones"},
	} {
		key, zones, err := allowedZones(c.terms)
		zone := ""
		if err == nil {
			zone, err = chooseZone(c.wanted, zones, "pvc-1")
		}
		if (key == label) != (len(c.terms) > 0 && err == nil || c.wanted != "" && len(c.terms) > 0) || zone != c.zone || text(err) != c.err {
			t.Errorf("%v %q: got %q %q, %v", c.terms, c.wanted, key, zone, err)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

package mapper_test

import (
	"fmt"
	"testing"
)

const (
	wwnA, wwnB, wwnC = "500a098280feeba5", "500a098280feeba6", "500a098280feeba7"
)

// One LUN at another target is another volume, so that only the targets of one LUN are mapped.
func TestFibreChannelLUNs(t *testing.T) {
	for name, c := range map[string]struct {
		change fields
		want   string
	}{
		"one LUN for all": {fields{"target_wwn": []string{wwnA, wwnB}}, "[" + wwnA + " " + wwnB + "] 1"},
		"a pair of arrays, both names and both LUNs": {
			fields{"target_wwn": []string{wwnA, wwnB}, "target_wwns": []string{wwnA, wwnB}, "target_luns": []int{1, 2}}, "[" + wwnA + "] 1"},
		"a pair of arrays, the LUN of the second": {
			fields{"target_wwn": []string{wwnA, wwnB}, "target_wwns": []string{wwnA, wwnB}, "target_luns": []int{2, 1}}, "[" + wwnB + "] 1"},
		"LUNs beside target_wwn":                    {fields{"target_wwn": []string{wwnA, wwnB, wwnC}, "target_luns": []int{1, 2, 1}}, "[" + wwnA + " " + wwnC + "] 1"},
		"without target_lun":                        {fields{"target_lun": nil, "target_wwns": []string{wwnA, wwnB, wwnC}, "target_luns": []int{3, 2, 3}}, "[" + wwnA + " " + wwnC + "] 3"},
		"a LUN beyond at a target that is left out": {fields{"target_wwns": []string{wwnA, wwnB}, "target_luns": []int{1, 300}}, "[" + wwnA + "] 1"},
		"a LUN for each host's view": {
			fields{"target_wwn": []string{wwnA, wwnB}, "initiator_target_lun_map": fields{"y": [][]any{{wwnB, 2}}, "x": [][]any{{"0x" + wwnA, "1"}, {wwnC, 1}}}}, "[" + wwnA + " " + wwnC + "] 1"},
		"a map beside lists that say the same": {
			fields{"target_wwns": []string{wwnA, wwnB}, "target_luns": []int{1, 2}, "initiator_target_lun_map": fields{"x": [][]any{{wwnA, 1}, {wwnB, 2}}}}, "[" + wwnA + "] 1"},
		"no map":                {fields{"initiator_target_lun_map": fields{}}, "[" + wwnA + "] 1"},
		"no target has the LUN": {fields{"target_wwns": []string{wwnA, wwnB}, "target_luns": []int{2, 3}}, "target_lun is 1, but no target has the volume there"},
		"fewer LUNs":            {fields{"target_wwns": []string{wwnA, wwnB}, "target_luns": []int{1}}, "target_wwns and target_luns have 2 and 1 items; they must be as many"},
		"more LUNs":             {fields{"target_wwn": wwnA, "target_luns": []int{1, 2}}, "target_wwn and target_luns have 1 and 2 items; they must be as many"},
		"a missing LUN":         {fields{"target_wwns": []string{wwnA, wwnB}, "target_luns": []any{1, nil}}, "target_luns[1] is missing"},
		"two LUNs at a target":  {fields{"target_wwns": []string{wwnA, "0x" + wwnA}, "target_luns": []int{1, 2}}, "target " + wwnA + " has the LUNs 1 and 2; it must have one"},
		"a map against the lists": {
			fields{"target_wwns": []string{wwnA}, "target_luns": []int{1}, "initiator_target_lun_map": fields{"x": [][]any{{wwnA, 2}}}},
			"target " + wwnA + " has the LUNs 1 and 2; it must have one"},
		"hosts that see other LUNs": {
			fields{"initiator_target_lun_map": fields{"x": [][]any{{wwnA, 1}}, "y": [][]any{{wwnA, 2}}}}, "target " + wwnA + " has the LUNs 1 and 2; it must have one"},
	} {
		mapped, got := mapWith(t, "fibre_channel", c.change)
		if got == "" {
			got = fmt.Sprintf("%v %d", mapped.Source.FC.TargetWWNs, *mapped.Source.FC.Lun)
		}
		if got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

// A volume has one name and one LUN for all its portals, and drivers say them in fields, in lists, or in both.
func TestISCSIPaths(t *testing.T) {
	const a, b, c = "10.0.0.1:3260", "10.0.0.2:3260", "10.0.0.3:3260"
	none := func(change fields) fields {
		for _, field := range []string{"target_portal", "target_iqn", "target_lun"} {
			if _, set := change[field]; !set {
				change[field] = nil
			}
		}
		return change
	}
	for name, row := range map[string]struct {
		change fields
		want   string
	}{
		"the portal alone, the name in a list":    {none(fields{"target_portal": a, "target_iqns": []string{iqn}, "target_lun": 1}), a + " [] " + iqn + " 1"},
		"the portal alone, name and LUN in lists": {none(fields{"target_portal": a, "target_iqns": []string{iqn}, "target_luns": []int{1}}), a + " [] " + iqn + " 1"},
		"the name alone, the portal in a list":    {none(fields{"target_iqn": iqn, "target_portals": []string{a}, "target_lun": 1}), a + " [] " + iqn + " 1"},
		"one name for all portals":                {none(fields{"target_iqn": iqn, "target_portals": []string{a, b}, "target_lun": 1}), a + " [" + b + "] " + iqn + " 1"},
		"one LUN for all portals":                 {none(fields{"target_portals": []string{a, b}, "target_iqns": []string{iqn, iqn}, "target_lun": 1}), a + " [" + b + "] " + iqn + " 1"},
		"an item in place of a list":              {none(fields{"target_portal": a, "target_iqns": iqn, "target_luns": 1}), a + " [] " + iqn + " 1"},
		"a target of another name":                {fields{"target_portals": []string{a, b, c}, "target_iqns": []string{iqn, other, iqn}}, a + " [" + c + "] " + iqn + " 1"},
		"a target with another LUN": {
			fields{"target_portals": []string{a, b, c}, "target_iqns": []string{iqn, iqn, iqn}, "target_luns": []int{1, 2, 1}}, a + " [" + c + "] " + iqn + " 1"},
		"a target with another LUN first": {
			fields{"target_portals": []string{b, a, c}, "target_iqns": []string{iqn, iqn, iqn}, "target_luns": []int{2, 1, 1}}, a + " [" + c + "] " + iqn + " 1"},
		"two LUNs at a target": {
			fields{"target_portals": []string{a}, "target_iqns": []string{iqn}, "target_luns": []int{2}}, "target " + iqn + " at " + a + " has the LUNs 1 and 2; it must have one"},
		"a portal alone with names of several": {
			none(fields{"target_portal": a, "target_iqns": []string{iqn, other}, "target_lun": 1}),
			"target_portals, target_iqns and target_luns have 0, 2 and 0 items; they must be as many"},
		"more LUNs than portals": {
			fields{"target_portals": []string{a}, "target_luns": []int{1, 2}}, "target_portals, target_iqns and target_luns have 1, 0 and 2 items; they must be as many"},
		"no portal":    {none(fields{"target_iqns": []string{iqn}, "target_lun": 1}), `target_portal "" ` + portalForm},
		"no name":      {none(fields{"target_portals": []string{a}, "target_lun": 1}), `target_iqn "" ` + nameForm},
		"no LUN":       {none(fields{"target_portals": []string{a}, "target_iqns": []string{iqn}}), "target_lun is missing"},
		"no LUN in it": {none(fields{"target_portals": []string{a}, "target_iqns": []string{iqn}, "target_luns": []any{nil}}), "target_luns[0] is missing"},
	} {
		mapped, got := mapWith(t, "iscsi", row.change)
		if s := mapped.Source.ISCSI; got == "" {
			got = fmt.Sprintf("%s %v %s %d", s.TargetPortal, s.Portals, s.IQN, s.Lun)
		}
		if got != row.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, row.want)
		}
	}
}

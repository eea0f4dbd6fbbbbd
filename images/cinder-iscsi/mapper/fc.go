package mapper

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
)

// fibreChannel maps Fibre Channel connections, for nodes with host bus adapters.
type fibreChannel struct{}

type fcData struct {
	WWN  list[text]   `json:"target_wwn"`
	LUN  number       `json:"target_lun"`
	WWNs list[text]   `json:"target_wwns"`
	LUNs list[number] `json:"target_luns"`
	Map  lunMap       `json:"initiator_target_lun_map"`
}

// lunMap has the targets that the hosts' ports see, with the volume's LUN at each.
type lunMap []fcTarget

// UnmarshalJSON accepts {"initiator": [["target", LUN], ...]} or null, and keeps the targets.
func (m *lunMap) UnmarshalJSON(data []byte) error {
	var byInitiator map[string][]list[json.RawMessage]
	if json.Unmarshal(data, &byInitiator) != nil {
		return shapeError("map of initiators to targets with LUNs")
	}
	for _, initiator := range slices.Sorted(maps.Keys(byInitiator)) {
		for _, pair := range byInitiator[initiator] {
			var wwn text
			var lun number
			if len(pair) != 2 || json.Unmarshal(pair[0], &wwn) != nil || json.Unmarshal(pair[1], &lun) != nil || !lun.Set {
				return shapeError("map of initiators to targets with LUNs")
			}
			if target := (fcTarget{string(wwn), lun.Value}); !slices.Contains(*m, target) {
				*m = append(*m, target)
			}
			if len(*m) > form.MaxItems {
				return shapeError(fmt.Sprintf("map to at most %d targets", form.MaxItems))
			}
		}
	}
	return nil
}

// fcTarget is a port of the storage, and the volume's LUN there.
type fcTarget struct {
	wwn string
	lun int64
}

// Map keeps only the targets that have the volume at the same LUN. A volume source has one LUN, at which the other targets have other
// volumes.
func (fibreChannel) Map(c Connection, in Input) (Mapped, error) {
	var data fcData
	if err := decode(c.data, &data); err != nil {
		return Mapped{}, err
	}
	targets, err := data.targets()
	if err != nil {
		return Mapped{}, err
	}
	number, wwns, err := data.sameLUN(targets)
	if err != nil {
		return Mapped{}, err
	}
	lun, err := form.LUN("target_lun", number)
	if err != nil {
		return Mapped{}, err
	}
	return Mapped{Source: corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{
		TargetWWNs: wwns, Lun: &lun, FSType: in.fsType(), ReadOnly: c.ReadOnly || in.ReadOnly,
	}}}, nil
}

// targets pairs names with LUNs. As in os-brick, target_wwns and target_luns come before target_wwn and target_lun. Without a list,
// target_lun is the LUN at all targets. No target may have two LUNs.
func (d fcData) targets() ([]fcTarget, error) {
	names, field := d.WWNs, "target_wwns"
	if len(names) == 0 {
		names, field = d.WWN, "target_wwn"
	}
	if err := form.Count(field, len(names)); err != nil {
		return nil, err
	}
	if len(d.LUNs) > 0 && len(d.LUNs) != len(names) {
		return nil, fmt.Errorf("%s and target_luns have %d and %d items; they must be as many", field, len(names), len(d.LUNs))
	}
	var targets []fcTarget
	add := func(field, name string, lun int64) error {
		wwn, err := form.WWN(field, name)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(targets, func(t fcTarget) bool { return t.wwn == wwn })
		switch {
		case i < 0:
			targets = append(targets, fcTarget{wwn, lun})
		case targets[i].lun != lun:
			return fmt.Errorf("target %s has the LUNs %d and %d; it must have one", wwn, targets[i].lun, lun)
		}
		return nil
	}
	if len(d.LUNs) == 0 && len(d.Map) > 0 {
		names = nil // the map says more than target_lun
	}
	for i, name := range names {
		lun, lunField := pick(d.LUNs, i, d.LUN, "target_lun")
		if !lun.Set {
			return nil, fmt.Errorf("%s is missing", lunField)
		}
		if err := add(fmt.Sprintf("%s[%d]", field, i), string(name), lun.Value); err != nil {
			return nil, err
		}
	}
	for _, t := range d.Map {
		if err := add("initiator_target_lun_map", t.wwn, t.lun); err != nil {
			return nil, err
		}
	}
	if len(targets) == 0 {
		return nil, errors.New("target_wwn is missing")
	}
	return targets, form.Count("initiator_target_lun_map beside "+field, len(targets))
}

// sameLUN returns the targets with target_lun, or with the LUN of the first target if target_lun is missing.
func (d fcData) sameLUN(targets []fcTarget) (lun int64, wwns []string, err error) {
	lun = targets[0].lun
	if d.LUN.Set {
		lun = d.LUN.Value
	}
	for _, t := range targets {
		if t.lun == lun {
			wwns = append(wwns, t.wwn)
		}
	}
	if len(wwns) == 0 {
		return 0, nil, fmt.Errorf("target_lun is %d, but no target has the volume there", lun)
	}
	return lun, wwns, nil
}

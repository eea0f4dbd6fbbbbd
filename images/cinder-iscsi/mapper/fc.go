package mapper

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// fibreChannel makes volumes for nodes with host bus adapters.
type fibreChannel struct{}

type fcData struct {
	WWN  list[text]   `json:"target_wwn"`
	LUN  number       `json:"target_lun"`
	WWNs list[text]   `json:"target_wwns"`
	LUNs list[number] `json:"target_luns"`
}

var wwnForm = regexp.MustCompile(`^[0-9a-f]{16}$`)

// Map keeps the targets that have the volume at the same LUN: a volume has one.
func (fibreChannel) Map(c Connection, in Input) (Mapped, error) {
	var data fcData
	if err := decode(c.data, &data); err != nil {
		return Mapped{}, err
	}
	wwns, lun, err := data.targets()
	if err != nil {
		return Mapped{}, err
	}
	checked, err := checkLUN(lun)
	if err != nil {
		return Mapped{}, err
	}
	return Mapped{Source: corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{
		TargetWWNs: wwns, Lun: &checked, FSType: in.fsType(), ReadOnly: c.ReadOnly,
	}}}, nil
}

func (d fcData) targets() (wwns []string, lun int64, err error) {
	first := d.LUN
	if !first.Set && len(d.LUNs) > 0 {
		first = d.LUNs[0]
	}
	if !first.Set {
		return nil, 0, errors.New("target_lun is missing")
	}
	named := slices.Clone(d.WWN)
	switch {
	case len(d.WWNs) == len(d.LUNs):
		for i, wwn := range d.WWNs {
			if d.LUNs[i] == first {
				named = append(named, wwn)
			}
		}
	case len(d.LUNs) == 0:
		named = append(named, d.WWNs...)
	default:
		return nil, 0, fmt.Errorf("target_wwns and target_luns have %d and %d items; they must be as many", len(d.WWNs), len(d.LUNs))
	}
	for _, wwn := range named {
		normal, err := checkWWN(string(wwn))
		if err != nil {
			return nil, 0, err
		}
		if !slices.Contains(wwns, normal) {
			wwns = append(wwns, normal)
		}
	}
	if len(wwns) == 0 {
		return nil, 0, errors.New("target_wwn is missing")
	}
	return wwns, first.Value, nil
}

// checkWWN writes a name as the kernel does under /dev/disk/by-path, where the kubelet looks for it literally.
func checkWWN(wwn string) (string, error) {
	normal := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(wwn), "0x"), ":", "")
	if !wwnForm.MatchString(normal) {
		return "", fmt.Errorf("target_wwn %q does not have 16 hexadecimal digits", wwn)
	}
	return normal, nil
}

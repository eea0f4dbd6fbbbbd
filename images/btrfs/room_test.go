package main

import (
	"testing"

	"github.com/flex-provisioner/flex-provisioner/images/btrfs/kernel"
)

func TestRoomIn(t *testing.T) {
	for _, c := range []struct {
		name       string
		size, free uint64
		groups     map[uint64]kernel.Group
		want       uint64
	}{
		{"empty", 1000, 900, nil, 850},
		{"promised", 1000, 900, map[uint64]kernel.Group{1: {Limited: true, Limit: 300}}, 550},
		{"promised and written", 1000, 600, map[uint64]kernel.Group{1: {Limited: true, Limit: 300, Used: 300}}, 550},
		{"written beyond what is promised", 1000, 500, map[uint64]kernel.Group{1: {Limited: true, Limit: 300, Used: 400}}, 450},
		{"deleted and not freed yet", 1000, 600, map[uint64]kernel.Group{1: {Limit: 300, Used: 300}}, 550},
		{"more promised than there is", 1000, 600, map[uint64]kernel.Group{1: {Limited: true, Limit: 300}, 2: {Limited: true, Limit: 300}}, 0},
		{"nothing free", 1000, 0, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := roomIn(c.size, c.free, c.groups); got != c.want {
				t.Errorf("room %d, want %d", got, c.want)
			}
		})
	}
}

func TestGroupOf(t *testing.T) {
	for _, c := range []struct {
		name string
		want uint64
	}{
		{"pvc-8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11", kernel.Level<<48 | 0x8b6e7a3e0d9f},
		{"pvc-8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11/..", 0},
		{"pvc-8B6E7A3E-0D9F-4A53-9D0A-6D1F5B7F2C11", 0},
		{"../pvc-8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11", 0},
		{"", 0},
	} {
		if got, _ := groupOf(c.name); got != c.want {
			t.Errorf("%q: group %d, want %d", c.name, got, c.want)
		}
	}
}

//go:build cinder

package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// librbd writes to the image that the volume names and reads it back, with the coordinates of the volume alone.
const librbd = `
import rados, rbd, sys
conf, monitors, user, pool, image = sys.argv[1:]
with rados.Rados(conffile=conf, rados_id=user, conf={"mon_host": monitors} if monitors else {}) as cluster:
    with cluster.open_ioctx(pool) as ioctx, rbd.Image(ioctx, image) as disk:
        assert disk.size() == 1 << 30, disk.size()
        disk.write(b"written by librbd", 4096)
        disk.flush()
    with cluster.open_ioctx(pool) as ioctx, rbd.Image(ioctx, image, read_only=True) as disk:
        print(disk.read(4096, 17).decode())
`

// Volumes of a real Ceph, as a static volume of ceph-csi and as a native one, are there under the names that they say.
func TestRealCeph(t *testing.T) {
	env := environment(t)
	if env["CEPH_CONF"] == "" {
		t.Skip("there is no Ceph: CEPH=1 make cinder-up")
	}
	for how, config := range credentials(t) {
		for _, kind := range []string{parameters.RBDCephCSI, parameters.RBDNative} {
			t.Run(how+" "+kind, func(t *testing.T) {
				s := realStage(t, config)
				s.parameters = map[string]string{"type": "ceph", "rbd": kind, "cephSecretName": "ceph", "cephSecretNamespace": "ceph"}
				if kind == parameters.RBDCephCSI {
					s.parameters["cephClusterID"] = "test"
				}
				uid := "cef00000-0000-4000-8000-" + fmt.Sprintf("%012x", time.Now().UnixNano()&0xffffffffffff)
				s.realRun(t.Context(), contract.Provision, uid).want(t, 0, "")
				source := s.cluster.Volume("pvc-" + uid).Spec.PersistentVolumeSource
				monitors, user, pool, image := "", "cinder", "", ""
				switch {
				case kind == parameters.RBDNative && source.RBD != nil:
					monitors, user, pool, image = source.RBD.CephMonitors[0], source.RBD.RadosUser, source.RBD.RBDPool, source.RBD.RBDImage
				case kind == parameters.RBDCephCSI && source.CSI != nil:
					pool, image = source.CSI.VolumeAttributes["pool"], source.CSI.VolumeHandle
				default:
					t.Fatalf("volume %s", asJSON(t, source))
				}
				out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", librbd, env["CEPH_CONF"], monitors, user, pool, image).CombinedOutput()
				if err != nil || string(bytes.TrimSpace(out)) != "written by librbd" {
					t.Errorf("librbd on %s/%s: %v: %s", pool, image, err, out)
				}
				t.Logf("librbd wrote to and read from %s/%s by %q", pool, image, monitors)
				s.realRun(t.Context(), contract.Delete, uid).want(t, 0, "")
				if found, err := s.client(t).Find(t.Context(), "pvc-"+uid); err != nil || len(found) != 0 {
					t.Errorf("left in cinder: %+v, %v", found, err)
				}
				if out, err := exec.CommandContext(t.Context(), "/usr/bin/rbd", "-c", env["CEPH_CONF"], "--id", "cinder", "ls", pool).Output(); err != nil || len(out) > 0 {
					t.Errorf("left in pool %s: %s, %v", pool, out, err)
				}
			})
		}
	}
}

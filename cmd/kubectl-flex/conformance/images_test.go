//go:build conformance

package conformance_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// The images as `make images` leaves them.
const archives = "../../../bin/images/"

func TestImages(t *testing.T) {
	for _, c := range []struct {
		name, subject, image string
		properties           map[string]string
		storage              []string
	}{
		{"hostpath", archives + "hostpath.tar", "", map[string]string{"root": "/srv/x", "mode": "0770", "snapshot-copy": "full"}, []string{"/srv/x"}},
		{"hostpath with two directories", archives + "hostpath.tar", "", map[string]string{"root": "/srv/x /srv/y", "snapshot-copy": "full"}, []string{"/srv/x", "/srv/y"}},
		{"hostpath's class", "../../../examples/hostpath/class/configmap.yaml", archives + "hostpath.tar", nil, nil},
		{"nfs-subdir", archives + "nfs-subdir.tar", "", map[string]string{"server": "fd00::1", "export": "/srv/nfs", "snapshot-copy": "full"}, []string{"/export"}},
		{"nfs-subdir's class", "../../../examples/nfs-subdir/class/configmap.yaml", archives + "nfs-subdir.tar", nil, nil},
		{"inline scripts", "../../../examples/inline/class/configmap.yaml", archives + "shell.tar", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := options(t, c.subject)
			o.Image, o.Properties, o.Storage = c.image, c.properties, c.storage
			o.Expandable, o.Listable, o.Snapshots = c.image == "", c.image == "", c.image == ""
			o.Listable = o.Listable && len(c.storage) == 1 // of two disks the kit leaves one without a mark, as one that is away
			wantPass(t, run(t, o))
		})
	}
}

// example builds the image of an example and returns its archive.
func example(t *testing.T, folder string) (archive string) {
	t.Helper()
	archive = filepath.Join(t.TempDir(), "image.tar")
	name := "registry.invalid/flex-provisioner/" + folder + ":dev"
	cmd := exec.CommandContext(t.Context(), "../../../tools/image.sh", name, archive, "../../../examples/"+folder+"/image")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return archive
}

// TestPublicImage is the image of use cases 3 and 4.
func TestPublicImage(t *testing.T) {
	t.Parallel()
	o := options(t, example(t, "use-case-3-and-4-public-image"))
	o.Properties = map[string]string{"server": "10.0.0.1", "export": "/srv/nfs"}
	wantPass(t, run(t, o))
}

// Cinder's storage is behind its API: the kit sees it by its list of volumes.
func TestCinder(t *testing.T) {
	t.Parallel()
	cinder := fake.New(t, fake.WithPace(0))
	secret := filepath.Join(t.TempDir(), "cloud")
	if err := os.Mkdir(secret, 0o700); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("[Cinder]\nendpoint = %s\n[Global]\ntenant-name = 11111111111111111111111111111111\n", cinder.Endpoint())
	if err := os.WriteFile(filepath.Join(secret, "cloud.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(t, archives+"cinder-iscsi.tar")
	o.Properties, o.Storage, o.Expandable, o.Listable, o.Network = nil, nil, true, true, true
	o.Parameters = map[string]string{"availability": "nova"}
	o.Secrets = map[string]string{"cinder-cloud-config": secret}
	o.Rights = []string{"create secrets", "update secrets", "delete secrets", "list nodes"}
	o.List = func(context.Context) ([]string, error) {
		var names []string
		for _, v := range cinder.Volumes() {
			names = append(names, v.Name)
		}
		return names, nil
	}
	wantPass(t, run(t, o))
}

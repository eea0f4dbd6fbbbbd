package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// directories provisions directories of an NFS export. The export is mounted in the pod; the class names its server in
// the property "server".
type directories struct{ export string }

func (d directories) Provision(_ context.Context, request sdk.Request) (*sdk.Volume, error) {
	server := request.Properties["server"]
	if server == "" {
		return nil, sdk.Refuse(errors.New(`property "server" is missing: name the NFS server in the class's ConfigMap`))
	}
	// An earlier attempt's directory is as good as a new one.
	if err := os.Mkdir(d.dir(request), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return &sdk.Volume{Source: corev1.PersistentVolumeSource{
		NFS: &corev1.NFSVolumeSource{Server: server, Path: d.dir(request)},
	}}, nil
}

func (d directories) Delete(_ context.Context, request sdk.Request, _ *corev1.PersistentVolume) error {
	// Without the export nobody knows whether the directory is gone.
	if _, err := os.Stat(d.export); err != nil {
		return sdk.TryAgain(err)
	}
	return os.RemoveAll(d.dir(request))
}

// Expand is optional, and here there is nothing to do: a directory has no size of its own.
func (d directories) Expand(_ context.Context, request sdk.Request, _ *corev1.PersistentVolume) error {
	_, err := os.Stat(d.dir(request))
	return err
}

func (d directories) dir(request sdk.Request) string {
	return filepath.Join(d.export, request.VolumeName)
}

// A whole provisioner. Its main function is
//
//	func main() { sdk.Main(directories{export: "/export"}) }
func Example() {
	export, err := os.MkdirTemp("", "export")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(export)

	p := directories{export}
	request := sdk.Request{VolumeName: "pvc-8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11"}

	_, err = p.Provision(context.Background(), request)
	fmt.Println(sdk.ExitCode(err), err)

	request.Properties = map[string]string{"server": "10.0.0.1"}
	volume, err := p.Provision(context.Background(), request)
	fmt.Println(sdk.ExitCode(err), volume.Source.NFS.Server, filepath.Base(volume.Source.NFS.Path))

	fmt.Println(p.Delete(context.Background(), request, nil), p.Delete(context.Background(), request, nil))
	// Output:
	// 64 property "server" is missing: name the NFS server in the class's ConfigMap
	// 0 10.0.0.1 pvc-8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11
	// <nil> <nil>
}

// Command cinder-iscsi is a provisioner of OpenStack Cinder's volumes as native volumes of Kubernetes, which the kubelet attaches by
// itself. README.md is for administrators.
package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/flex-provisioner/flex-provisioner/internal/version"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

func main() {
	if slices.Equal(os.Args[1:], []string{"--version"}) {
		fmt.Println("cinder-iscsi version", version.String())
		return
	}
	sdk.Main(provisioner{root: os.Getenv(sdk.RootEnv), log: os.Stderr})
}

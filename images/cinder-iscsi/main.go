// Command cinder-iscsi is the provisioner that makes volumes in OpenStack Cinder and hands them to Kubernetes as native
// ones, which the kubelet attaches by itself. README.md is for those who set it up.
package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/version"
)

func main() {
	if slices.Equal(os.Args[1:], []string{"--version"}) {
		fmt.Println("cinder-iscsi version", version.String())
		return
	}
	sdk.Main(provisioner{root: os.Getenv(sdk.RootEnv), log: os.Stderr})
}

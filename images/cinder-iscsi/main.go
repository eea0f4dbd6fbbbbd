// Command cinder-iscsi is the provisioner that makes volumes in OpenStack Cinder and hands them to Kubernetes as native
// ones, which the kubelet attaches by itself. README.md is for those who set it up.
package main

import (
	"os"

	"github.com/flex-provisioner/flex-provisioner/sdk"
)

func main() { sdk.Main(provisioner{root: os.Getenv(sdk.RootEnv), log: os.Stderr}) }

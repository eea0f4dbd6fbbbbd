// Package clustertest is an API server with the rights that rbac.yaml grants to the Cinder provisioner.
//
// It may import the SDK's double, sdktest and contract, and is for tests alone. It is not for import by other modules.
package clustertest

// Package clustertest is an API server with the rights that rbac.yaml grants to the Cinder provisioner.
//
// It may import the SDK's double, sdktest and contract, and is for tests alone.
package clustertest

// Package sdktest tests a provisioner without a cluster. It has a fake API server for PersistentVolumes, and lays out the files of a pod in a
// directory.
//
// It may import the SDK, its fake API server, skeleton and contract. It is public, as the SDK is, and for tests only.
package sdktest

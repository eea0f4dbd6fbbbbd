// Package sdktest tries a provisioner without a cluster: an API server that takes PersistentVolumes, and the files of a
// pod in a directory.
//
// It may import the SDK, its double of the API server, skeleton and contract. It is public, as the SDK is, and for
// tests alone.
package sdktest

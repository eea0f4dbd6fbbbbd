// Package apiserver is a fake API server with the part that a provisioner pod may use: its own PersistentVolume, the Secrets of its
// namespace, and the list of nodes.
//
// It owns objects in memory, tokens with their rights, and faults. It may import contract. It never binds, schedules or runs anything.
// Authors of provisioners use it by package sdktest.
package apiserver

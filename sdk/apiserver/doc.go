// Package apiserver is a double of the API server, with what a provisioner pod may use of it and no more: its own
// PersistentVolume, the Secrets of its namespace, the list of nodes.
//
// It owns objects in memory, tokens with their rights, and faults. It may import contract. It never binds, schedules or
// runs anything. Authors of provisioners reach it by package sdktest. It is not for import by other modules.
package apiserver

// Package sandbox runs a program as the kubelet runs a provisioner: alone in its process namespace, with a read-only
// root, as its own user without capabilities, and with the contract's files at their true paths.
//
// It owns namespaces, mounts and the death of what runs in them. It needs Linux, and either root or user namespaces for
// everybody. It imports nothing of the project, and knows neither requests nor volumes. It never leaves anything on the
// machine. It is not for import by other modules.
package sandbox

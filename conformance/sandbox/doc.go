// Package sandbox runs a program as the kubelet runs a provisioner: alone in its process namespace, with a read-only root, as a user
// without capabilities, and with the contract's files at their paths.
//
// It owns namespaces, mounts and the end of the processes in them. It needs Linux, and either root or unprivileged user namespaces. It
// imports nothing of the project. It leaves nothing on the machine. It is not for import by other modules.
package sandbox

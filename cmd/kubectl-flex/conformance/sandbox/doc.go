// Package sandbox runs a program as the kubelet runs a provisioner: alone in its process namespace, with a read-only
// root, as a user without capabilities, and with the contract's files at their paths.
//
// The program may be a stranger's. It always has a user namespace, in which the root of the machine is nobody, unless
// the caller asks for the users of the machine. Every path of its root is resolved below that root, by openat2, and
// everything is mounted by file descriptor, so links of an image lead nowhere else. docs/conformance.md says what is
// contained and what is not.
//
// It owns namespaces, mounts and the end of the processes in them. It needs Linux, and either root or unprivileged user
// namespaces. It imports nothing of the project. It leaves nothing on the machine.
package sandbox

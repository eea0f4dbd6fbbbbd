// Package skeleton makes the PersistentVolume that a provisioner completes.
//
// It owns what a volume carries from its first write on. It may import contract and the types of Kubernetes. It is
// pure, and never adds the dispatcher's own record: podspec does. It is not for import by other modules.
package skeleton

// Package skeleton makes the PersistentVolume that a provisioner completes.
//
// It owns what a volume has from its first write. It may import contract and the types of Kubernetes. It is pure. Package podspec adds the
// dispatcher's record.
package skeleton

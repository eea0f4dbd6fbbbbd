// Package cluster is what the provisioner needs of Kubernetes beside the PersistentVolume: the Secret with a volume's
// CHAP credentials, and which nodes still use a volume.
//
// It owns those two kinds; rbac.yaml, in the image's folder, grants just that. It may import the SDK and contract. It
// writes Secrets blind and never reads one, and never prints what is in one. It is not for import by other modules.
package cluster

// Package cluster is a client for objects of Kubernetes besides the PersistentVolume: the Secret with a volume's CHAP credentials, and
// the nodes that still use a volume.
//
// It owns the access to Secrets and nodes, which rbac.yaml in the image's folder grants. It may import the SDK and contract. It writes
// Secrets without reading them, and never prints their content.
package cluster

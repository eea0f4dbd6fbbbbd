// Package admission knows whether the cluster's admission policies keep provisioner pods to what they may do.
//
// It owns the shipped policies, their comparison with the cluster's, and the probes: hostile requests that a policy has
// to refuse. It may import podspec, configmaps, contract and deploy/policies. It never changes anything in the cluster:
// each probe is a dry run.
package admission

// Package conformance tries a provisioner against the contract, without a cluster: a script or an image, in pods that
// the dispatcher's own code builds and that run in a sandbox of this machine, with a double of the API server.
//
// It owns the checks, each with a row in Checks, and how a trial is reported; docs/conformance.md is its prose. It may
// import its sandbox, the SDK and its double of the API server, audit, podspec, configmaps and contract. It never asks
// more of a provisioner than the contract, and never judges a pod or a volume by rules of its own. It is not for import
// by other modules.
package conformance

// Package conformance checks a provisioner against the contract without a cluster. The provisioner is a script or an image. It runs in
// pods that the dispatcher's code builds, in a sandbox on this machine, with a fake API server.
//
// It owns the checks, each with a row in Checks, and the report; docs/conformance.md describes them. It may import its sandbox, the SDK
// and its fake API server, audit, podspec, configmaps and contract. It requires no more of a provisioner than the contract, and checks
// pods and volumes by the code of the dispatcher.
package conformance

// Package policies holds the admission policies as the dispatcher ships them, so that it can tell whether those that are
// in force in a cluster are still the same.
package policies

import _ "embed"

// Volumes lets a provisioner pod create its own volume alone.
//
//go:embed volumes.yaml
var Volumes string

// Secrets lets a provisioner pod write and delete the Secret of its own volume alone.
//
//go:embed secrets.yaml
var Secrets string

// Namespace lets the dispatcher alone make pods in the provisioners' namespace.
//
//go:embed provisioner-namespace.yaml
var Namespace string

// Package policies holds the admission policies as the dispatcher ships them, so that it can tell whether those that are
// in force in a cluster are still the same.
package policies

import "embed"

// Files are the manifests of this directory. Every policy among them is one that the dispatcher compares; there is no
// other list.
//
//go:embed *.yaml
var Files embed.FS

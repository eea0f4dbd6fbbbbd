package policies

import "embed"

// Files are the manifests of this directory. Every policy among them is one that the dispatcher compares; there is no
// other list.
//
//go:embed *.yaml
var Files embed.FS

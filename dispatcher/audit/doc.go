// Package audit compares the objects of Kubernetes with each other and with the storage, and finds what is left over
// and what is missing.
//
// It owns the kinds of findings, the parser of a provisioner's list of its storage, and the command that is advised for
// each finding. It may import podspec, configmaps and contract. It is pure: its callers read the objects, and it never
// sends a request nor runs a command.
package audit

// Package audit compares what Kubernetes knows of volumes with itself and with the storage, and names what nobody
// needs, or what is missing.
//
// It owns the kinds of findings, how a provisioner's list of its storage is read, and the command that is advised for
// each finding. It may import podspec, configmaps and contract. It only looks, at objects that it is given: it never
// sends anything, and never carries out what it advises. It is not for import by other modules.
package audit

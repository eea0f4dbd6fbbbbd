// Package parameters reads what administrators write for the Cinder provisioner: the parameters of a StorageClass and
// the properties of its ConfigMap. Both are strict: an unknown name or a wrong value is an error that names it, and all
// errors come at once.
//
// It owns the defaults and the metadata of volumes. It may import form. It is pure, and never asks Cinder whether what
// is named is there. It is not for import by other modules.
package parameters

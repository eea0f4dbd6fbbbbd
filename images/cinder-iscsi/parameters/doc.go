// Package parameters parses the input of administrators for the Cinder provisioner: the parameters of a StorageClass and the properties
// of its ConfigMap. Both are strict: an unknown name or a wrong value is an error that names it, and all errors are returned together.
//
// It owns the defaults and the metadata of volumes. It may import form. It is pure, and does not check whether the named objects exist in
// Cinder.
package parameters

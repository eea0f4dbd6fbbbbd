// Package classes says what the provisioner ConfigMaps of one class come to, with its StorageClass.
//
// It owns the verdict on them, its words for users and administrators, and which of them serves a class. It may import
// events, observed, podspec, configmaps and contract, and the types of Kubernetes. It is pure: the controller and the
// kubectl plugin bring the objects.
package classes

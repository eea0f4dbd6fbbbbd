// Package versions keeps the last good version of each provisioner ConfigMap.
//
// It owns the order of the requests by which one version takes the place of another. It may import reader, writer and
// configmaps. It does not judge whether a ConfigMap is valid, nor which version is in force: package classes does.
package versions

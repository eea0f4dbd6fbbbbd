// Package e2e runs the whole of flex-provisioner on a real cluster: claims are made through the API server, the kubelet
// runs the provisioner pods, and what counts is what exists afterwards. Every test works in a namespace, with classes
// and in directories of its own, and fails if anything of it is left when it ends.
package e2e

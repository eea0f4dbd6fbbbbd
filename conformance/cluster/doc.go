// Package cluster checks a class that is installed on a cluster. It creates claims as a user does, kills provisioner pods, uses and
// deletes the volumes, and checks what is left.
//
// It complements package conformance, which checks the provisioner alone and more thoroughly. It owns its checks and a client for the few
// kinds that they need. It may import conformance, quantity, podspec, configmaps and contract. Everything that it creates is in one
// namespace and is removed at the end. It changes no other object. It is not for import by other modules.
package cluster

// Package cluster tries a class that is installed on a real cluster: it makes claims as a user would, removes the pods
// that serve them, uses the volumes and deletes them, and looks at what is there afterwards.
//
// It complements package conformance, which tries the provisioner alone and far harder. It owns its checks and a client
// for the few kinds that they need. It may import conformance, quantity, podspec, configmaps and contract. Everything
// that it makes is in one namespace and gone at the end, and it never touches what it has not made. It is not for
// import by other modules.
package cluster

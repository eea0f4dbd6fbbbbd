// Package cache holds what the dispatcher knows of the cluster, kept up to date by watches.
//
// It owns the informers, their indexes and their transforms, which keep of each object what somebody here reads. It may
// import observed, resize, podspec, configmaps and contract. It never writes to the API server, and nobody may change
// an object that came from it.
package cache

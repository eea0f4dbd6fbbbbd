// Package library is the adapter to sig-storage-lib-external-provisioner.
//
// The library decides which claims have to be provisioned and which volumes deleted, and hands them over. This package
// owns all that it takes to use it: the context and the logger that it gets, its limiters and thresholds, and the order
// in which it is made. It imports nothing of the project. It never waits for a pod: a thread of the library that did
// would be lost to every other class.
package library

// Package queue says which claim is reconciled next, and which class may run one more pod.
//
// It owns one queue and a number of workers for each StorageClass, the order of claims within a class, the class's
// concurrency, and the cleanup that is deferred while users of the class wait. Namespaces take turns wherever claims
// wait for each other. It imports nothing of the project. It knows claims by their UID alone, never reads an object,
// and never decides what is done.
package queue

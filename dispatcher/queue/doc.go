// Package queue says which claim is reconciled next, and which class may run one more pod.
//
// It owns one queue and a number of workers for each StorageClass, the order of claims within a class, and the class's
// concurrency. Namespaces take turns wherever claims wait for each other. It imports nothing of the project. It knows claims by
// their UID alone, never reads an object, and never decides what is done.
package queue

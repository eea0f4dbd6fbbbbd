// Package inspect explains the state of claims and classes from the objects of a cluster: what is wrong, and what to do.
//
// It owns the states and stories that kubectl flex shows, and the checks before a command changes something. It may import the dispatcher's
// pure packages, so that it decides as the dispatcher does: observed, reconcile, classes and events; and allowlist, podspec, configmaps and
// contract. It is pure: the command reads the objects and the clock. It returns texts of images, users and backends as single lines
// of printable characters.
package inspect

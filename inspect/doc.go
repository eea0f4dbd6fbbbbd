// Package inspect says of a cluster's objects how claims stand, why, and what to do.
//
// It owns the states and stories that kubectl flex shows, and its decisions about what a command may do. It may import the dispatcher's
// pure packages, so that it decides as the dispatcher does: snapshot, reconcile, classes and events; and allowlist, podspec, configmaps and
// contract. It is pure: the command reads the objects and the clock. Texts of images, users and backends leave it as single lines of
// printable characters. It is not for import by other modules.
package inspect

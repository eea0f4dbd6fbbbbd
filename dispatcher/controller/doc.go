// Package controller reconciles claims: it observes one, has a plan made, and carries the plan out.
//
// It owns the loop, and the memory of what was done that the caches do not show yet. It may import all packages of the
// dispatcher but the wiring. It decides nothing about a claim: package reconcile does. Nothing that matters is kept in
// memory alone: the pods with their finalizer are the write-ahead log, and the volume pvc-<UID> is the commit. A
// dispatcher that starts anew finds everything there.
package controller

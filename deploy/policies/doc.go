// Package policies holds the admission policies as the dispatcher ships them, so that it can tell whether those that
// are in force in a cluster are still the same.
//
// It owns the manifests of its folder. It imports nothing of the project, and never reads them: package
// dispatcher/admission does.
package policies

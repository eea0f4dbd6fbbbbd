// Package documents splits YAML files, and explains syntax errors in them.
//
// It owns the line numbers and messages of these errors. It may import contract, and nothing of Kubernetes, since flexctl imports it and has
// to be small.
package documents

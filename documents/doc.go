// Package documents splits files of YAML, and explains where one is none.
//
// It owns how lines are counted and what is said of a fault. It may import contract, and nothing of Kubernetes: flexctl, which
// lies in pods, imports it. It is not for import by other modules.
package documents

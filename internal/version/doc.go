// Package version says which version of the project a program was built from.
//
// It owns the variables that the Makefile and a release stamp. It imports nothing of the project. It is not about
// versions of Kubernetes or of the contract.
package version

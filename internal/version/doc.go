// Package version says which version of the project a program was built from.
//
// It owns the variable that the Makefile stamps. It imports nothing of the project. It is not about versions of Kubernetes, of the
// contract or of images.
package version

// Package resize writes how an expansion stands into a claim's status, in the words of Kubernetes' own resizer.
//
// It owns the status, the allocated size and the conditions that speak of a resize. It may import podspec and the types
// of Kubernetes. It is pure: it never reads a clock and sends nothing. The controller sends the patch.
package resize

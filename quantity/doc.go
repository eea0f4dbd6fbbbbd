// Package quantity reads Kubernetes quantities that people write.
//
// It owns the bounds of their digits and exponents, which apimachinery lacks. It imports nothing of the project. It
// never judges whether a size makes sense. It is not for import by other modules.
package quantity

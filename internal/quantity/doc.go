// Package quantity parses Kubernetes quantities that people write.
//
// It owns the limits on their digits and exponents, which apimachinery lacks. It imports nothing of the project. Its callers check whether a
// size makes sense.
package quantity

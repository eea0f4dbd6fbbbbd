// Package podspec turns a request into a provisioner pod, and a provisioner pod into its outcome. It is pure: values in,
// values out, with no client, context, clock, randomness or environment.
package podspec

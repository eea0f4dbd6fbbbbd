// Package observed holds what is known about one claim at one moment, and what follows from it.
//
// It owns the types Claim and Attempt, the identity by which a volume's storage is found, and the request that a
// provisioner pod is made from. It may import contract, configmaps and podspec, and the types of Kubernetes. It never
// reads a clock, a cache or the API server: the controller fills a Claim, and the same Claim always gives the
// same answers.
package observed

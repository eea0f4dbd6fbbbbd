// Package dispatcher wires the controller that turns claims and volumes into provisioner pods.
//
// It owns Options, New and Run, and nothing else. It may import all packages below it. docs/architecture.md follows a
// claim and a ConfigMap through these packages.
package dispatcher

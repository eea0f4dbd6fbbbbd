// Package cinder is a client of Cinder for the calls of the provisioner, each of which is one request.
//
// It owns the client and the exit codes of its errors, which docs/cinder-reference.md describes. It may import cloud,
// form and the SDK. It validates responses before it returns them. It never retries: package flow decides the next step
// by the state of a volume.
package cinder

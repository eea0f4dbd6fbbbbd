// Package cinder is the few calls that the provisioner makes, each of them one request, and what their errors mean.
//
// It owns the client of block storage and the exit code of each of its errors; docs/cinder-errors.md is their prose. It
// may import cloud, form and the SDK. It checks what it is answered before anybody reads it. It never retries and never
// knows what comes next: Cinder itself, and the state that a volume is in, are the flow's business. It is not for
// import by other modules.
package cinder

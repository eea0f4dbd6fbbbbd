// Package audit compares what Kubernetes knows of volumes with itself and with the storage, and names what nobody needs,
// or what is missing. It only looks: what to do about a finding is a command that a person may run.
package audit

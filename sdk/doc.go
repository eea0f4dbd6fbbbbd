// Package sdk is for authors of provisioner images in Go. It knows the contract with the dispatcher and Kubernetes'
// PersistentVolume, and nothing of the dispatcher or of any storage.
//
// An author implements [Provisioner] and calls [Main]:
//
//	func main() { sdk.Main(directories{export: "/export"}) }
//
// Main reads the request, calls Provision or Delete, completes the PersistentVolume that lies ready beside the request with
// what Provision returned, creates it, and turns an error into the exit code and the message that the claim's owner sees.
// One that can also expand implements [Expander]. The package example is a whole provisioner; "kubectl flex new NAME --lang go"
// writes one to start from, with its class. Run it without a cluster by means of package sdktest, and have it proved by
// "kubectl flex conformance".
//
// # What makes a provisioner correct
//
// It may die anywhere. The pod can be killed after the storage was made and before the volume was; the next one has to
// find that storage by request.VolumeName, its only name. The volume is the commit: once it exists the provision counts as
// done, whatever becomes of the pod. So:
//
//   - name the storage after request.VolumeName, and look for it before making it;
//   - on delete, prove that the storage is the claim's before touching it, and take "not there" for success only where
//     the backend itself answered;
//   - promise "nothing was made" by [Refuse] and [NotHere] only where it is true;
//   - stop when the context ends, which SIGTERM does.
//
// # Errors
//
// The claim's owner reads the error as it is, in one line, so it says what is wrong, with what, and what to do. No secrets.
// [Refuse], [NotHere] and [TryAgain] choose what happens next; every other error is tried again with growing delays, after
// which storage may half exist: it is looked for again, or removed.
//
// # More of Kubernetes
//
// [NewConfig] is how the pod reaches the API server, for clients of an author's own. What the pod may do there is what the
// class's ServiceAccount may, and of volumes only its own.
package sdk

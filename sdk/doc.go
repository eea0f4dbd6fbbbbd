// Package sdk is for authors of provisioner images in Go. It implements the contract with the dispatcher, and creates the
// PersistentVolume. It has nothing that is specific to a storage system.
//
// An author implements [Provisioner] and calls [Main]:
//
//	func main() { sdk.Main(directories{export: "/export"}) }
//
// Main reads the request and calls Provision or Delete. After Provision it completes the PersistentVolume of the pod's request with the
// result, and creates it. It turns an error into an exit code, and into the message that the claim's owner sees. A provisioner that
// can expand volumes implements [Expander], and one that takes snapshots [Snapshotter]. The package example is a whole provisioner. "kubectl flex new NAME --lang go" writes
// one to start from, with its class. Run it without a cluster by package sdktest, and test it by "kubectl flex conformance".
//
// # What makes a provisioner correct
//
// The pod can be killed at any time, also after the storage was made and before the volume was created. The next pod has to find that
// storage by request.VolumeName, its only name. The volume is the commit: once it exists, the provision has succeeded, whatever
// happens to the pod. So:
//
//   - name the storage after request.VolumeName, and look for it before making it;
//   - on delete, verify that the storage is the claim's before touching it, and take "not there" for success only where
//     the backend itself answered;
//   - promise by [Refuse] and [NotHere] that nothing was made only where it is true;
//   - stop when the context ends, as it does on SIGTERM.
//
// # Errors
//
// The claim's owner reads the error as one line. It should say what is wrong, with which object, and what to do. It must not have
// secrets. [Refuse], [NotHere] and [TryAgain] determine what happens next. After every other error the operation is retried with
// backoff. Since storage may exist in part, the next attempt looks for it, or an undo removes it.
//
// # More of Kubernetes
//
// [NewConfig] is the configuration for clients of your own. The pod has the rights of the class's ServiceAccount, and of volumes
// only those to its own.
package sdk

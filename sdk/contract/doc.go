// Package contract is the interface between the dispatcher and a provisioner image.
//
// It owns the paths inside the pod, the fields of the request, the meaning of exit codes, and the names of labels, annotations and
// fixed objects. docs/writing-a-provisioner.md describes it in prose. It may import the standard library alone, so that an image
// that is built against it pulls in nothing else. It is public: other people's images are built against it. So names and fields
// are added, and never changed or removed.
package contract

// Package contract is what the dispatcher and a provisioner image agree on.
//
// It owns where things lie inside the pod, what the request says, what an exit code means, and which names mark the
// objects. docs/writing-a-provisioner.md is its prose. It may import the standard library alone, so that an image built
// against it pulls in nothing else. It is public: other people's images are built against it, so that names and fields
// are added, and never changed or taken away.
package contract

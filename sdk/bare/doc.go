// Package bare is what every program in a provisioner pod does, without Kubernetes' types and client: read the request, reach the
// API server, create the volume, and say how it ended. Package sdk puts the types around it. flexctl is made of it alone, since
// the types would double its size, and it lies in every pod that runs a script.
//
// It owns exit codes and messages, when a creation is tried again, and what a provisioner may say of its volume. It may import
// contract, and of Kubernetes' modules only field errors, names and quantities. It is not for import by other modules.
package bare

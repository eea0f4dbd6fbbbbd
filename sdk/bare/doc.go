// Package bare has the common part of programs in a provisioner pod, without Kubernetes' types and client: it reads the request, creates the
// volume at the API server, and reports the outcome. Package sdk adds the types. flexctl uses this package alone, since every pod that
// runs a script has it, and the types would double its size.
//
// It owns exit codes and messages, when a creation is retried, and which fields of its volume a provisioner may set. It may import contract,
// and of Kubernetes' modules only field errors, names and quantities.
package bare

// Package authors does what authors of provisioners do: it writes each template by kubectl flex new, builds it and runs it.
// It is not for import by other modules.
package authors

// Package authors does what authors of provisioners do: it writes each template by kubectl flex new, builds it and runs it.
package authors

// Package form validates text from Cinder and its backends. All of it becomes an argument, an option, a path or a pattern on a node. So
// each function accepts what the standard for such a text allows, and of that only what is safe in these places. An error names the field
// and the form. It quotes the value, shortened if it is long, unless the value may be a secret.
//
// It may import contract. It is pure. It refuses text without the form, and never corrects it.
package form

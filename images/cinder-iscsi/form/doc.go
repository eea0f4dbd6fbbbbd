// Package form checks text from Cinder and its backends by what it is. All of it ends as an argument, an option, a path
// or a pattern on a node, so each form takes what the thing's own standard takes, and of that only what none of these
// can be misled by. An error names the field and the form. It quotes the value, in part where that is long, unless the
// value may be a secret.
//
// It may import contract. It is pure, and never guesses what was meant: what has not the form is refused. It is not for
// import by other modules.
package form

package sandbox

import (
	"io"
	"time"
)

// Inside is the name by which a process knows that it is to become a sandbox. Programs that use Start call Enter first.
const Inside = "flex-provisioner-sandbox"

// Spec is what is run and what it sees.
type Spec struct {
	// Root is the directory that becomes the root; "/" is the machine's own.
	Root string
	// Scratch is an empty directory, used while the sandbox runs.
	Scratch string
	// Writable lets the program write to its root, of which nothing stays.
	Writable bool
	// User is who it runs as, and the group. Root has the three capabilities of a provisioner pod that runs as root.
	User int
	// Mounts lie over the root, in their order.
	Mounts []Mount
	// Command is the program, looked up in the PATH of Env, and its arguments.
	Command []string
	Env     []string
	// Dir is the working directory; empty is /.
	Dir string

	// Mapped reports whether the sandbox has a user namespace of its own. Start sets it.
	Mapped bool
}

// Mount is a file or directory that is seen at another path.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Exit is how a program ended.
type Exit struct {
	// Code is the exit code, 128 and the signal's number where one ended it.
	Code int
	// Signaled reports whether a signal ended it.
	Signaled bool
	// Took is how long it ran.
	Took time.Duration
}

// Output is where the program prints.
type Output struct{ Stdout, Stderr io.Writer }

package sandbox

import (
	"io"
	"time"
)

// Inside is the name by which a process knows that it is to become a sandbox. Programs that use Start call Enter first.
const Inside = "flex-provisioner-sandbox"

// Spec is the program and its environment.
type Spec struct {
	// Root is the directory that becomes the root; "/" is the root of the machine.
	Root string
	// Scratch is an empty directory, used while the sandbox runs.
	Scratch string
	// Writable reports whether the program can write to its root. The changes are discarded.
	Writable bool
	// User is who it runs as, and the group. Root has the three capabilities of a provisioner pod that runs as root.
	User int
	// Mounts are made in this order.
	Mounts []Mount
	// Command is the program, looked up in the PATH of Env, and its arguments.
	Command []string
	Env     []string
	// Dir is the working directory; empty is /.
	Dir string

	// Mapped reports whether the sandbox has a user namespace of its own. Start sets it.
	Mapped bool
}

// Mount is a bind mount of a file or directory.
type Mount struct {
	Source, Target string
	ReadOnly       bool
}

// Exit is the end of a program.
type Exit struct {
	// Code is the exit code. It is 128 plus the number of the signal if a signal ended it.
	Code int
	// Signaled reports whether a signal ended it.
	Signaled bool
	// Took is the duration.
	Took time.Duration
}

// Output is where the program prints.
type Output struct{ Stdout, Stderr io.Writer }

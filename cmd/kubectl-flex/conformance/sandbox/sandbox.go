package sandbox

import (
	"io"
	"time"
)

// Inside is the name by which a process knows that it is to become a sandbox, before its main begins.
const Inside = "flex-provisioner-sandbox"

// Spec is the program and its environment.
type Spec struct {
	// Root is the directory that becomes the root; "/" is the root of the machine.
	Root string
	// Scratch is an empty directory, used while the sandbox runs.
	Scratch string
	// Writable reports whether the program can write to its root. The changes are discarded.
	Writable bool
	// User is who it runs as, and the group. Root has the three capabilities of a provisioner pod that runs as root, in
	// its own user namespace.
	User int
	// HostUsers reports whether the sandbox's users are those of the machine, as with hostUsers of a pod. Its root then
	// is root to sockets and files of the machine that are mounted. It needs root.
	HostUsers bool
	// Network reports whether it has the machine's network. Else it has a loopback interface of its own.
	Network bool
	// Listen is an address of the sandbox's own network that the caller serves, by Process.Listener. It may be empty.
	Listen string
	// Mounts are made in this order.
	Mounts []Mount
	// Keep are files and directories of the sandbox that the caller reads after the program's end, by Process.Tail and
	// Process.Has.
	Keep []string
	// Command is the program, looked up in the PATH of Env, and its arguments.
	Command []string
	Env     []string
	// Dir is the working directory; empty is /.
	Dir string
}

// Mount is a bind mount of a file or directory.
type Mount struct {
	Source, Target string
	ReadOnly       bool
	// Memory replaces the source by an empty directory in memory, of at most so many bytes, or, with File, by an empty
	// file.
	Memory int64
	File   bool
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

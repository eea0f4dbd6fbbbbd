//go:build race

package chaos

// Building the library writes client-go's global scheme, without a lock, while other dispatchers of this process read it.
// In real life each has a process of its own; here the race detector can only be shown plans with a single one.
const alone = true

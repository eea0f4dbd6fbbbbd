// Package progress says how far a claim has come, by a plan.
//
// It owns the operation that a claim waits for, its phase, since when, and what the claim's status says of that. The
// dispatcher's metrics and kubectl flex say the same by it. It may import reconcile, events, resize, observed, podspec
// and contract. It is pure. It never decides what is done: a plan stays as it was made, but for what the claim's status
// is to say.
package progress

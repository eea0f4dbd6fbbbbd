// Package reconcile decides what to do about one claim, from what is known about it at one moment.
//
// It owns the decisions: when to provision, delete, undo, expand, retry, repair and clean up. It may import obstacles,
// observed, resize, events, podspec and contract. Decide is pure, and right at every moment at which a dispatcher may
// have died: it looks at what exists, never at what was done before. It never reads a clock, a cache or the API server,
// and carries nothing out: the controller does.
package reconcile

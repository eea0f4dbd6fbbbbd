// Package writer sends changes of claims, volumes and pods to the API server.
//
// It owns every patch, creation and deletion, with the preconditions that keep a dispatcher with old caches from
// writing on what it does not know. It may import observed for the names of annotations, resize, podspec and contract.
// It decides nothing, and remembers nothing.
package writer

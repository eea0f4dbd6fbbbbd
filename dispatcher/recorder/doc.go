// Package recorder writes events and metrics.
//
// It owns the memory of recorded events, so that each is written once, the store of those that wait to be written, and
// the metrics. It may import events, podspec and contract. It never decides what happens next, and nothing reads an
// event back.
package recorder

// Package podlog reads the end of a provisioner pod's log.
//
// It owns how much of a log is read, how a missing log is recognized, and the text by which events and reports quote a
// log. It may import podspec and contract. Its callers decide who may see a log.
package podlog

// Package podlog reads the end of a provisioner pod's log.
//
// It owns how much of a log is read, how a log that is gone is told from one that is there, and the words that say how a log ends. It may
// import podspec and contract. It decides nothing about who may see a log: its callers do. It is not for import by other modules.
package podlog

// Package host changes a node for the driver: loop devices, file systems and mounts.
//
// It owns system calls and programs. It decides nothing: what a step means, and which one is next, is the driver's. An
// image is opened by its name below a directory without a link on the way, and what was opened is what gets the device.
package host

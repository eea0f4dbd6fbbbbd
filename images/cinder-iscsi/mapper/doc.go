// Package mapper maps Cinder's connection info to native Kubernetes volumes, or to what flex-node has to know. It is pure: the same connection, parameters and names give
// the same volume source.
//
// There is a file for each kind of connection, by "driver_volume_type". A connection that no native volume can use, or only an unsafe
// one, is an error with the reason.
//
// It may import form and parameters. It validates all text that it puts into a volume.
package mapper

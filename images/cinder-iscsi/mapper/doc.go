// Package mapper turns Cinder's connection info into native Kubernetes volumes. It is pure: the same connection,
// parameters and names give the same volume source, and nothing is asked of Cinder or of Kubernetes.
//
// There is one file for each kind of connection. What can be no native volume, or only an unsafe one, is refused with
// the reason; the kinds are those of "driver_volume_type".
//
// It may import form and parameters. It never passes on text whose form has not been checked. It is not for import by
// other modules.
package mapper

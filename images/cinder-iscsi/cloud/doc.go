// Package cloud reads the credentials of a cloud, and connects to its Cinder. The credentials are files of a mounted Secret and never the
// environment, in one of three formats:
//
//   - cloud.conf: the INI file of OpenStack's cloud provider, with [Global] and [Cinder];
//   - clouds.yaml, with or without secure.yaml;
//   - OS_AUTH_URL, OS_USERNAME and so on: an openrc, one file for each variable.
//
// Each is converted to the same settings, which Parse checks as a whole. Certificates are files of the same Secret. Parsing is pure, and
// Config.Connect does all I/O.
//
// It may import form and the SDK. It has nothing of volumes, and never shows a credential in an error.
package cloud

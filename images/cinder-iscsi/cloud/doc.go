// Package cloud reads how to reach Cinder, and connects. The credentials are files of a mounted Secret, never the
// environment, in one of three writings:
//
//   - cloud.conf: the INI file of OpenStack's cloud provider, with [Global] and [Cinder];
//   - clouds.yaml, with or without secure.yaml;
//   - OS_AUTH_URL, OS_USERNAME and so on: an openrc, one file for each variable.
//
// Each is brought into the same settings, which Parse checks as a whole. Certificates are files of the same Secret.
// Parsing is pure; Config.Connect does all I/O.
//
// It may import form and the SDK. It knows nothing of volumes, and never shows a credential in an error. It is not for
// import by other modules.
package cloud

// Package docs keeps the documentation true: its tests compare every table and list of README.md and docs/ with the
// code, in both directions where the code knows the whole. It is not for import by other modules.
package docs

// Package docs keeps the documentation true: its tests follow every link, and compare tables and lists with the code that
// knows them. -update writes those that the code knows whole.
package docs

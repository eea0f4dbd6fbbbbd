package version

import "runtime/debug"

// unknown is the version of a program that was built neither by the Makefile nor in a checkout.
const unknown = "v0.0.0-dev"

// stamp is the output of git describe. The Makefile sets it by a linker flag.
var stamp string

// String is the version: the Makefile's stamp, or else the module version that the Go command recorded. That has the commit for a build in a
// checkout.
func String() string {
	info, _ := debug.ReadBuildInfo()
	return of(stamp, info)
}

func of(stamp string, info *debug.BuildInfo) string {
	switch {
	case stamp != "":
		return stamp
	case info != nil && info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	}
	return unknown
}

package version

import "runtime/debug"

// unknown is the version of what was built neither by the Makefile nor from a version control system.
const unknown = "v0.0.0-dev"

// stamp is what git describe said. The Makefile has the linker write it.
var stamp string

// String is the version: the Makefile's stamp, or what the Go command recorded of the module, which for a build in a
// checkout has the commit.
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

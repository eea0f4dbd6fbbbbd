package version

// registry is the prefix of the names of a release's images. tools/release.sh sets it by a linker flag.
var registry string

// Image is the reference of an image of the project that belongs to this program: in the release's registry, or else as
// make images names it.
func Image(name string) string {
	if registry == "" {
		return "registry.invalid/flex-provisioner/" + name + ":dev"
	}

	return registry + "/" + name + ":" + String()
}

//go:build !replay

package chaos

const replays = false

func collect() {}

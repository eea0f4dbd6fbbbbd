//go:build !race

package chaos

const alone = false

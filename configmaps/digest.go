package configmaps

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
)

// digest is 16 hexadecimal digits that are the same for the same pairs and differ, but for a chance of 2^-64, for others.
func digest(pairs map[string]string) string {
	sum := sha256.New()
	write := func(text string) {
		// The length keeps {a: bc} and {ab: c} apart.
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		sum.Write(size[:])
		sum.Write([]byte(text))
	}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		write(key)
		write(pairs[key])
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

package configmaps

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
)

// digest is the first 16 hexadecimal digits of a SHA-256 of the pairs.
func digest(pairs map[string]string) string {
	sum := sha256.New()
	write := func(text string) {
		// The length distinguishes {a: bc} from {ab: c}.
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

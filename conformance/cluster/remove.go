package cluster

import "strings"

func (t *trial) checkDelete() {
	c, ok := t.bound(t.mode())
	if !ok || !t.writes(c) {
		return
	}
	t.learnSecret(c)
	t.note = t.unchecked()
	t.wantGone(c, "after a delete", "a delete ends with 0 once the storage is gone, and removes the Secret that it made")
}

// unchecked says what a delete may leave that the check cannot see.
func (t *trial) unchecked() string {
	var parts []string
	lack, err := t.missingRights(t.ctx, toSecrets)
	t.must(err)
	if lack != "" {
		parts = append(parts, "but for Secrets: "+lack)
	}
	if t.options.List == nil {
		parts = append(parts, "but for the storage itself: give --list COMMAND")
	}
	return strings.Join(parts, "; ")
}

package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/cmd/flex-node/driver"
)

const recordSuffix = ".json"

// Records implements driver.Host.
func (h *Host) Records() (records []driver.Record, boot string, err error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, "", err
	}

	entries, err := os.ReadDir(h.records)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, "", err
	}

	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), recordSuffix) {
			continue
		}

		r, err := h.record(filepath.Join(h.records, entry.Name()))
		if errors.Is(err, os.ErrNotExist) { // another call has removed it
			continue
		}

		if err != nil {
			return nil, "", err
		}

		records = append(records, r)
	}

	return records, strings.TrimSpace(string(id)), nil
}

func (h *Host) record(path string) (r driver.Record, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}

	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("read the record %s: %w", path, err)
	}

	if r.Version != driver.RecordVersion || h.recordPath(r.Volume) != path {
		return r, fmt.Errorf("the record %s is of version %d and of volume %.64q: this flex-node does not know it",
			path, r.Version, r.Volume)
	}

	return r, nil
}

func (h *Host) recordPath(volume string) string { return filepath.Join(h.records, volume+recordSuffix) }

// Keep implements driver.Host. Whoever reads a record has the one of before or this one, and never a part.
func (h *Host) Keep(r driver.Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}

	if err := os.MkdirAll(h.records, 0o700); err != nil {
		return err
	}

	path := h.recordPath(r.Volume)
	file, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	defer file.Close()

	if _, err := file.Write(data); err != nil {
		return err
	}

	if err := file.Sync(); err != nil {
		return err
	}

	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}

	return syncDir(h.records)
}

// Forget implements driver.Host.
func (h *Host) Forget(volume string) error {
	err := os.Remove(h.recordPath(volume))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}

	return syncDir(h.records)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()

	return dir.Sync()
}

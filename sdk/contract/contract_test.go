package contract

import "testing"

func TestLeaseName(t *testing.T) {
	for name, want := range map[string]string{
		"flex-provisioner.io/dispatcher": "flex-provisioner",
		"storage.example.com/arrays":     "flex-provisioner-storage-example-com-arrays",
	} {
		if got := LeaseName(name); got != want {
			t.Errorf("LeaseName(%q) = %q, want %q", name, got, want)
		}
	}
}

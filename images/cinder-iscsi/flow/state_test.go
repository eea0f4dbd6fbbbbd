package flow

import (
	"testing"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
)

// Cinder shows the host's name to administrators only, so that an attachment of ours has to be known without it.
func TestForeign(t *testing.T) {
	us := attacher{"k8s-1", "/kubernetes/pvc-1"}
	for _, c := range []struct {
		attachment cinder.Attachment
		want       string
	}{
		{cinder.Attachment{HostName: "k8s-1", Device: "/kubernetes/pvc-1"}, ""},
		{cinder.Attachment{Device: "/kubernetes/pvc-1"}, ""},
		{cinder.Attachment{HostName: "node-1", Device: "/kubernetes/pvc-1"}, `host "node-1"`},
		{cinder.Attachment{HostName: "k8s-1", Device: "/dev/vdb"}, `host "k8s-1"`},
		{cinder.Attachment{Device: "/dev/vdb"}, `another host, as "/dev/vdb"`},
		{cinder.Attachment{ServerID: "s-1", Device: "/kubernetes/pvc-1"}, "server s-1"},
	} {
		if got := foreign(&cinder.Volume{Attachments: []cinder.Attachment{c.attachment}}, us); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.attachment, got, c.want)
		}
	}
}

// What Cinder began to attach when it died keeps a volume in use, although it shows no attachment.
func TestBegun(t *testing.T) {
	v := &cinder.Volume{Status: "in-use"}
	if p, d := toProvision(v, attacher{}), toDelete(v, attacher{}); p != forget || d != forget {
		t.Errorf("steps %d and %d, want %d", p, d, forget)
	}
}

func TestToExpand(t *testing.T) {
	for _, c := range []struct {
		status string
		size   int
		asked  bool
		want   step
	}{
		{"in-use", 10, false, extend},
		{"available", 10, false, extend},
		{"extending", 10, false, wait}, // an earlier run asked
		{"extending", 10, true, wait},
		{"in-use", 20, true, done},
		{"in-use", 20, false, done},
		{"maintenance", 20, false, done},
		{"in-use", 10, true, stop}, // the scheduler found no room
		{"error_extending", 10, true, stop},
		{"error_extending", 10, false, stop},
		{"backing-up", 10, false, wait},
		{"attaching", 10, false, wait}, // its provision has not ended yet
	} {
		if got := toExpand(&cinder.Volume{Status: c.status, Size: c.size}, 20, c.asked); got != c.want {
			t.Errorf("%+v: got step %d, want %d", c, got, c.want)
		}
	}
}

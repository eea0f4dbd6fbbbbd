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

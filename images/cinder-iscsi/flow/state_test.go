package flow

import (
	"testing"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
)

// Cinder shows the host's name to administrators only, so that an attachment of ours has to be known without it.
func TestForeign(t *testing.T) {
	us := attacher{host: "k8s-1", device: "/kubernetes/pvc-1"}
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
		if got := otherUser(&cinder.Volume{Attachments: []cinder.Attachment{c.attachment}}, us); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.attachment, got, c.want)
		}
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

// TestSteps: what is done next about a volume in each of Cinder's states, with no attachment, with ours and with another's.
func TestSteps(t *testing.T) {
	us := attacher{host: "k8s-1", device: "/kubernetes/pvc-1"}
	ours, theirs := cinder.Attachment{Device: us.device}, cinder.Attachment{ServerID: "s-1"}
	for _, c := range []struct {
		status            string
		free, held, taken [2]step // to provision, to delete
	}{
		{"creating", [2]step{wait, wait}, [2]step{wait, wait}, [2]step{stop, stop}},
		// Cinder works on it, and gives it its former status back.
		{"backing-up", [2]step{wait, wait}, [2]step{wait, wait}, [2]step{stop, stop}},
		{"extending", [2]step{wait, wait}, [2]step{wait, wait}, [2]step{stop, stop}},
		{"retyping", [2]step{wait, wait}, [2]step{wait, wait}, [2]step{stop, stop}},
		{"uploading", [2]step{wait, wait}, [2]step{wait, wait}, [2]step{stop, stop}},
		{"restoring-backup", [2]step{wait, wait}, [2]step{wait, wait}, [2]step{stop, stop}},
		{"available", [2]step{reserve, remove}, [2]step{reserve, terminate}, [2]step{stop, stop}},
		{"attaching", [2]step{connect, terminate}, [2]step{wait, terminate}, [2]step{stop, stop}},
		// What Cinder began to attach when it died keeps a volume in use, although it shows no attachment.
		{"in-use", [2]step{forget, forget}, [2]step{reconnect, terminate}, [2]step{stop, stop}},
		{"detaching", [2]step{wait, wait}, [2]step{wait, wait}, [2]step{stop, stop}},
		{"deleting", [2]step{wait, wait}, [2]step{wait, wait}, [2]step{stop, wait}},
		{"error", [2]step{clear, remove}, [2]step{stop, terminate}, [2]step{stop, stop}},
		{"error_deleting", [2]step{stop, stop}, [2]step{stop, stop}, [2]step{stop, stop}},
		{"error_attaching", [2]step{stop, terminate}, [2]step{stop, terminate}, [2]step{stop, stop}},
		{"error_detaching", [2]step{stop, terminate}, [2]step{stop, terminate}, [2]step{stop, stop}},
		{"error_extending", [2]step{stop, remove}, [2]step{stop, terminate}, [2]step{stop, stop}},
		{"maintenance", [2]step{stop, stop}, [2]step{stop, terminate}, [2]step{stop, stop}},
	} {
		for _, a := range []struct {
			attachments []cinder.Attachment
			want        [2]step
		}{{nil, c.free}, {[]cinder.Attachment{ours}, c.held}, {[]cinder.Attachment{ours, theirs}, c.taken}} {
			v := &cinder.Volume{Status: c.status, Attachments: a.attachments}
			if got := [2]step{toProvision(v, us), toDelete(v, us)}; got != a.want {
				t.Errorf("%s with %d attachments: steps %d, want %d", c.status, len(a.attachments), got, a.want)
			}
		}
	}
	if got := toProvision(nil, us); got != create {
		t.Errorf("no volume: step %d, want %d", got, create)
	}
}

// TestOurs: the volume that has come furthest is kept, and of those the oldest, which is found first.
func TestOurs(t *testing.T) {
	volume := func(id, status string) cinder.Volume {
		return cinder.Volume{ID: id, Name: "pvc-1", Status: status, Metadata: map[string]string{metaClaimUID: "1"}}
	}
	mine, err := ownVolumes([]cinder.Volume{volume("a", "creating"), volume("b", "error"), volume("c", "available"), volume("d", "in-use"), volume("e", "attaching"), volume("f", "in-use")}, "1")
	got := ""
	for _, v := range mine {
		got += v.ID
	}
	if err != nil || got != "dfecba" {
		t.Errorf("order %s, %v", got, err)
	}
}

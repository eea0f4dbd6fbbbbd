package events

import (
	"errors"
	"fmt"
	"testing"
)

func TestNotGranted(t *testing.T) {
	const by = `create pod flex-provisioners/prov-7-0: pods "prov-7-0" is forbidden: ValidatingAdmissionPolicy 'flex-provisioner-pods' with binding 'flex-provisioner-pods' denied request: `
	const lacks = `ServiceAccount foo is not granted root: to grant it, write into ConfigMap flex-system/flex-pv-policy foo.privileges: "root"`
	for text, want := range map[string]string{
		by + lacks: lacks,
		by + "no pod may use its node's processes or IPC: spec.hostPID and spec.hostIPC": "",
		"exceeded quota": "",
		lacks:            "", // not a policy's words
	} {
		err := errors.New(text)
		if got := NotGranted(err); got != want {
			t.Errorf("NotGranted(%q) = %q, want %q", text, got, want)
		}

		message := PodRefused(OnClaim, nil, fmt.Errorf("wrapped: %w", err)).Message
		if want != "" && message != "no pod is created: "+want || want == "" && message != "wrapped: "+text {
			t.Errorf("event for %q: %q", text, message)
		}
	}
}

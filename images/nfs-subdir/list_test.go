package nfssubdir

import (
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// TestList: what has a mark is listed, with the command that removes it on the server. What was archived is not.
func TestList(t *testing.T) {
	c := newClass(t, archive)
	list := func() sdktest.Result {
		return sdktest.RunScript(t, script, sdktest.NewPod(t, sdktest.List(c.properties), nil, nil), 0)
	}
	if got := list(); got.Code != 69 {
		t.Errorf("without marks ended with %d: %s", got.Code, got.Output)
	}
	if got := sdktest.RunScript(t, script, c.provision(t), 0); got.Code != 0 {
		t.Fatal(got.Output)
	}
	want := "storage " + c.name + " ssh " + server + " rm -rf -- " + export + "/" + c.name + " " + export + "/.flex-provisioner/" + c.name + "\n"
	if got := list(); got.Code != 0 || got.Output != want {
		t.Errorf("ended with %d and printed %q, want %q", got.Code, got.Output, want)
	}
	if got := sdktest.RunScript(t, script, c.delete(t), 0); got.Code != 0 {
		t.Fatal(got.Output)
	}
	if got := list(); got.Code != 0 || got.Output != "" {
		t.Errorf("after the delete ended with %d and printed %q", got.Code, got.Output)
	}
}

package hostpath

import (
	"os"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// TestList: what has a mark is listed, with the command that removes it, and nothing is changed.
func TestList(t *testing.T) {
	c := newClass(t)
	list := func() sdktest.Result {
		return sdktest.RunScript(t, script, sdktest.NewPod(t, sdktest.List(map[string]string{"root": c.root}), nil, nil), 0)
	}
	list().Expect(t, 69, "nothing was made here, or its disk is not mounted")
	sdktest.RunScript(t, script, c.provision(t), 0).Expect(t, 0, "created")
	if err := os.Mkdir(c.root+"/lost+found", 0o700); err != nil {
		t.Fatal(err)
	}
	want := "storage " + c.name + " ssh " + sdktest.Node + " rm -rf -- " + c.dir() + " " + c.mark() + "\n"
	if got := list(); got.Code != 0 || got.Output != want {
		t.Errorf("ended with %d and printed %q, want %q", got.Code, got.Output, want)
	}
	sdktest.RunScript(t, script, c.delete(t, sdktest.Node), 0).Expect(t, 0, "")
	if got := list(); got.Code != 0 || got.Output != "" {
		t.Errorf("after the delete ended with %d and printed %q", got.Code, got.Output)
	}
}

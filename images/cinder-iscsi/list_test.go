package main

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// TestListByRun: the whole program lists on standard output.
func TestListByRun(t *testing.T) {
	s := newStage(t)
	s.provision(t.Context()).want(t, 0, "")
	request := sdktest.List(nil)
	pod := s.pod(request, nil)
	stdout := os.Stdout
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = write
	err = sdk.Run(t.Context(), pod.Root, provisioner{root: pod.Root, log: io.Discard})
	os.Stdout = stdout
	write.Close()
	printed, _ := io.ReadAll(read)
	if err != nil || !bytes.HasPrefix(printed, []byte("storage "+name+" openstack volume ")) {
		t.Errorf("printed %q, error %v", printed, err)
	}
}

package main

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// TestList: the volumes of this cluster are listed, those of another in the same project are not, and nothing is changed.
func TestList(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.properties = map[string]string{"cluster": "blue"}
	s.provision(t.Context()).want(t, 0, "")
	s.cinder.ForgetCalls()
	id := s.cinder.Volume(name).ID
	for cluster, want := range map[string]string{
		"blue":  name + ": openstack volume set --state available --detached " + id + " && openstack volume delete " + id + "\n",
		"green": "",
	} {
		request := sdktest.List(map[string]string{"cluster": cluster})
		pod := s.pod(request, nil)
		storage, err := provisioner{root: pod.Root, log: io.Discard}.List(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, v := range storage {
			got += v.Name + ": " + v.Remove + "\n"
		}
		if got != want {
			t.Errorf("cluster %s has\n%swant\n%s", cluster, got, want)
		}
	}
	wantCalls(t, s, []string{"GET /volumes/detail", "GET /volumes/detail"})
	s.wantOne()
}

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

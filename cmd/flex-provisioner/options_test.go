package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		args string
		want []string // parts of the one error that reports everything; none for success
	}{
		{name: "defaults"},
		{name: "reserved provisioner name", args: "--provisioner-name=kubernetes.io/flex-provisioner",
			want: []string{`--provisioner-name: Invalid value: "kubernetes.io/flex-provisioner"`, "flex-provisioner.io/dispatcher"}},
		{name: "everything at once",
			args: "--namespace=Not_A_Name --flexctl-image= --flexctl-mount=bind --pod-kube-api=http://x --kubeconfig=/nowhere --kube-api-qps=0 --threads=0 --http-address=8080 --lease-duration=1s",
			want: []string{
				"--namespace=Not_A_Name: name a namespace: ",
				`--flexctl-image="": name the image that holds flexctl`,
				"--flexctl-mount=bind: say auto, image or copy",
				"--pod-kube-api=http://x: give a URL such as https://10.96.0.1:443",
				"--kubeconfig=/nowhere: name a file that can be read: stat /nowhere: no such file or directory",
				"--kube-api-qps=0: give a positive rate",
				"--threads=0: give 1 to 256",
				"--http-address=8080: give an address such as :8080",
				"--lease-duration=1s: give 3s or more",
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := defaults()
			command := newCommand()
			command.ResetFlags()
			o.register(command.Flags())
			if err := command.ParseFlags(strings.Fields(c.args)); err != nil {
				t.Fatal(err)
			}
			_, err := o.validate()
			if (err == nil) != (len(c.want) == 0) {
				t.Fatalf("validate %s: %v", c.args, err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error\n  %v\nlacks\n  %s", err, part)
				}
			}
		})
	}
}

func TestPositionalArgumentsAreRefused(t *testing.T) {
	command := newCommand()
	command.SetArgs([]string{"run"})
	command.SetOut(&bytes.Buffer{})
	err := command.Execute()
	if want := `unknown command "run" for "flex-provisioner"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

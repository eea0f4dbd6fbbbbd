//go:build integration

// Package integration checks what the project installs against a real API server: that the manifests are accepted, that
// the policies hold, and that the dispatcher's rights are enough and no more.
package integration

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// server has deploy/base and all the examples installed, without the creator stamp, and testdata/setup.yaml.
var server *apiserver.Server

var eventually = apiserver.Eventually

var users = []apiserver.User{
	{Name: "tom", Groups: []string{"team-a"}},
	{Name: "mallory"},
	{Name: "steward"},
	{Name: "system:kube-scheduler"},
	{Name: "system:node:node1", Groups: []string{"system:nodes"}},
	{Name: "system:serviceaccount:kube-system:statefulset-controller"},
	{Name: "system:serviceaccount:calico-system:calico-cni-plugin"},
	{Name: "system:serviceaccount:kube-system:cilium"},
	{Name: "system:ovn-node:node1", Groups: []string{"system:ovn-nodes"}},
	{Name: "system:serviceaccount:istio-system:istio-cni"},
	{Name: "system:serviceaccount:kube-system:addon"}, // which somebody gave all rights
	{Name: "system:serviceaccount:kube-system:generic-garbage-collector"},
	{Name: "system:serviceaccount:kube-system:namespace-controller"},
	{Name: "system:serviceaccount:kube-system:root-ca-cert-publisher"},
	{Name: "system:serviceaccount:kube-system:service-account-controller"},
	{Name: "system:serviceaccount:kube-system:legacy-service-account-token-cleaner"},
	{Name: "system:serviceaccount:kube-system:persistent-volume-binder"},
	{Name: "system:serviceaccount:kube-system:pvc-protection-controller"},
}

func TestMain(m *testing.M) {
	code, err := run(context.Background(), m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context, m *testing.M) (int, error) {
	var err error
	if server, err = apiserver.Start(ctx, users); err != nil {
		return 1, err
	}
	defer server.Stop()
	if err := server.InstallSnapshots(ctx); err != nil {
		return 1, err
	}
	for _, args := range [][]string{
		{"create", "serviceaccount", "default"}, // no controller does it
		{"apply", "--server-side", "-k", "examples"},
		{"label", "namespace", "flex-provisioners", "pod-security.kubernetes.io/enforce=privileged", "--overwrite"}, // so that the policies are asked
		{"apply", "-f", "test/integration/testdata/setup.yaml"},
		{"apply", "-f", "images/cinder-iscsi/rbac.yaml"},
		{"delete", "--wait=false", "volumesnapshotcontent", "snapcontent-31313131-3131-4131-8131-313131313131", "foreign-going"}, // finalizers keep them
		{"patch", "-n", "flex-system", "configmap", "flex-pv-policy", "--patch-file", "test/integration/testdata/allow-list.yaml"},
	} {
		if _, err := server.Kubectl(ctx, args...); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

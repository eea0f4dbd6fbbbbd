// Package apiserver runs a real etcd and kube-apiserver, and the controllers where a test needs them, on free loopback
// ports: no kubelet, no scheduler, no containers. A test binary starts one in TestMain and stops it at the end;
// test/bench starts one for each burst.
package apiserver

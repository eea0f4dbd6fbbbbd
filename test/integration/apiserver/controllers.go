package apiserver

import (
	"strconv"
	"strings"
)

var controllers = User{Name: "system:kube-controller-manager"}

// StartControllers runs kube-controller-manager with the named controllers, or all that are on by default for none. Each
// has its own identity, as on a real cluster. They need a moment to start: wait for what they do. They end with stop, or
// with the server.
func (s *Server) StartControllers(names ...string) (stop func(), err error) {
	return s.StartControllersAt(300, 500, names...)
}

// StartControllersAt has client limits other than those that a test wants: Kubernetes' defaults are 20 and 30.
func (s *Server) StartControllersAt(qps, burst int, names ...string) (stop func(), err error) {
	path := s.file("controllers.kubeconfig")
	if err := s.writeKubeconfig(path, controllers.Token()); err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = []string{"*"}
	}
	p, err := s.run("kube-controller-manager", "--kubeconfig", path, "--authentication-kubeconfig", path, "--authorization-kubeconfig", path,
		"--bind-address", "127.0.0.1", "--secure-port", ports[0], "--cert-dir", s.file("controllers"), "--leader-elect=false",
		"--use-service-account-credentials", "--root-ca-file", s.file("tls.crt"), "--controllers", strings.Join(names, ","),
		"--kube-api-qps", strconv.Itoa(qps), "--kube-api-burst", strconv.Itoa(burst))
	if err != nil {
		return nil, err
	}
	return p.stop, nil
}

package apiserver

import (
	"strconv"
	"strings"
	"time"
)

// Controllers is kube-controller-manager itself, and each of its controllers where they have no identity of their own.
var Controllers = User{Name: "system:kube-controller-manager"}

// StartControllers runs kube-controller-manager with the named controllers, or all that are on by default for none. Each
// has its own identity, as on a real cluster. They need a moment to start: wait for what they do. They end with stop, or
// with the server.
func (s *Server) StartControllers(names ...string) (stop func(), err error) {
	return s.StartControllersAt(Limits{QPS: 300, Burst: 500}, names...)
}

// Limits are of what kube-controller-manager does, and in whose name.
type Limits struct {
	QPS, Burst int // requests of each of its clients; Kubernetes' defaults are 20 and 30
	// OneIdentity is kube-controller-manager without --use-service-account-credentials: all controllers have its own name.
	OneIdentity bool
	// Sync is how often it looks at all claims and volumes again, zero for Kubernetes' default of 15 seconds.
	Sync time.Duration
}

// StartControllersAt has limits other than those that a test wants.
func (s *Server) StartControllersAt(l Limits, names ...string) (stop func(), err error) {
	path := s.file("controllers.kubeconfig")
	if err := s.writeKubeconfig(path, Controllers.Token()); err != nil {
		return nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = []string{"*"}
	}
	args := []string{"--kubeconfig", path, "--authentication-kubeconfig", path, "--authorization-kubeconfig", path,
		"--bind-address", "127.0.0.1", "--secure-port", ports[0], "--cert-dir", s.file("controllers"), "--leader-elect=false",
		"--use-service-account-credentials=" + strconv.FormatBool(!l.OneIdentity),
		"--root-ca-file", s.file("tls.crt"), "--controllers", strings.Join(names, ","),
		"--kube-api-qps", strconv.Itoa(l.QPS), "--kube-api-burst", strconv.Itoa(l.Burst)}
	if l.Sync > 0 {
		args = append(args, "--pvclaimbinder-sync-period", l.Sync.String())
	}
	p, err := s.run("kube-controller-manager", args...)
	if err != nil {
		return nil, err
	}
	return p.stop, nil
}

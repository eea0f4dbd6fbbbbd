package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Server is a running API server.
type Server struct {
	// Dir holds keys, data and logs, and goes with Stop.
	Dir string
	// Host is the server's URL.
	Host string
	// Etcd is the URL of its store, which takes anybody's requests.
	Etcd string
	// Kubeconfig is a file for Admin.
	Kubeconfig string

	ca        []byte
	processes []*process
}

// readyTimeout bounds the start of each process. Starved machines have taken more than a minute.
const readyTimeout = 5 * time.Minute

// Start runs etcd and kube-apiserver with RBAC, NodeRestriction, static tokens for users, and further arguments. On an
// error nothing runs any more.
func Start(ctx context.Context, users []User, args ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "flex-integration-")
	if err != nil {
		return nil, fmt.Errorf("start API server: %w", err)
	}
	s := &Server{Dir: dir}
	if err := s.start(ctx, users, args); err != nil {
		s.Stop()
		return nil, fmt.Errorf("start API server: %w", err)
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, users []User, more []string) error {
	if err := s.prepare(users); err != nil {
		return err
	}
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	etcd := "http://127.0.0.1:" + ports[0]
	s.Etcd = etcd
	if _, err := s.run("etcd", "--data-dir", filepath.Join(s.Dir, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--listen-peer-urls", "http://127.0.0.1:"+ports[1]); err != nil {
		return err
	}
	s.Host = "https://127.0.0.1:" + ports[2]
	binary, emulate, err := version()
	if err != nil {
		return err
	}
	server, err := s.run(binary, append(append(emulate, more...), "--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--secure-port", ports[2],
		"--tls-cert-file", s.file("tls.crt"), "--tls-private-key-file", s.file("tls.key"),
		"--token-auth-file", s.file("tokens.csv"), "--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", s.file("sa.key"),
		"--service-account-signing-key-file", s.file("sa.key"), "--service-cluster-ip-range", "10.96.0.0/16",
		"--allow-privileged", "--endpoint-reconciler-type", "none")...)
	if err != nil {
		return err
	}
	if err := s.writeKubeconfig(s.Kubeconfig, Admin.Token()); err != nil {
		return err
	}
	return s.waitReady(ctx, server)
}

// version reads FLEX_KUBERNETES, the version to be: 1.30 is a real older API server, which test/cluster/build.sh
// kubernetes-1.30 makes; others are emulated by the newest, which can do that for three minor versions back. Without it
// the newest is itself.
func version() (binary string, args []string, err error) {
	const newest = "kube-apiserver"
	switch v := os.Getenv("FLEX_KUBERNETES"); v {
	case "":
		return newest, nil, nil
	case "1.30":
		return newest + "-" + v, nil, nil
	case "1.34", "1.35", "1.36":
		return newest, []string{"--emulated-version=kube=" + v}, nil
	default:
		return "", nil, fmt.Errorf("FLEX_KUBERNETES=%s is none of 1.30, 1.34, 1.35, 1.36", v)
	}
}

// Stop ends the processes, the youngest first, and removes Dir.
func (s *Server) Stop() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].stop()
	}
	_ = os.RemoveAll(s.Dir)
}

// Config is the client configuration of whoever holds the token.
func (s *Server) Config(token string) *rest.Config {
	return &rest.Config{
		Host: s.Host, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: s.ca},
		QPS:            -1, // no limit: the server is ours
		WarningHandler: rest.NoWarnings{},
	}
}

// Client is the typed client of whoever holds the token.
func (s *Server) Client(token string) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(s.Config(token))
}

// Processes are the process ids of etcd, kube-apiserver and whatever else was started, by name.
func (s *Server) Processes() map[string]int {
	pids := map[string]int{}
	for _, p := range s.processes {
		pids[p.name] = p.cmd.Process.Pid
	}
	return pids
}

func (s *Server) file(name string) string { return filepath.Join(s.Dir, name) }

func (s *Server) run(name string, args ...string) (*process, error) {
	p, err := start(s.Dir, name, args...)
	if err != nil {
		return nil, err
	}
	s.processes = append(s.processes, p)
	return p, nil
}

func (s *Server) prepare(users []User) error {
	s.Kubeconfig = s.file("kubeconfig")
	_, keyErr := writeKey(s.Dir, "sa.key")
	if err := errors.Join(keyErr, writeCertificate(s.Dir), writeTokens(s.file("tokens.csv"), users)); err != nil {
		return err
	}
	ca, err := os.ReadFile(s.file("tls.crt"))
	s.ca = ca
	return err
}

// KubeconfigOf is a file for the user, which has to be one that the server was started with.
func (s *Server) KubeconfigOf(u User) (string, error) {
	path := s.file("kubeconfig-of-" + strings.ReplaceAll(u.Name, ":", "-"))
	return path, s.writeKubeconfig(path, u.Token())
}

func (s *Server) writeKubeconfig(path, token string) error {
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: s.Host, CertificateAuthorityData: s.ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"test": {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}, path)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// waitReady waits for /readyz, which is true only after the roles that every cluster has were made.
func (s *Server) waitReady(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	client := s.Client(Admin.Token()).Discovery().RESTClient()
	for {
		err := client.Get().AbsPath("/readyz").Do(ctx).Error()
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended: %s", p.name, p.failure())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %s", p.name, err, p.failure())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

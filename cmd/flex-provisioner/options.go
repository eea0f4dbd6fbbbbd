package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// options are the values of the command line.
type options struct {
	provisionerName string
	namespace       string
	flexctlImage    string
	flexctlMount    string
	podAPI          string
	kubeconfig      string
	qps             float32
	burst           int
	threads         int
	httpAddress     string
	leaderElect     bool
	leaseNamespace  string
	leaseDuration   time.Duration
	insecure        bool
	profiling       bool
	deleteLimit     int
	loggingFormat   string
}

// Values of --flexctl-mount.
const (
	mountAuto  = "auto"
	mountImage = "image"
	mountCopy  = "copy"
)

func defaults() *options {
	return &options{
		provisionerName: contract.ProvisionerName,
		namespace:       contract.ProvisionersNamespace,
		flexctlImage:    podspec.FlexctlImage,
		flexctlMount:    mountAuto,
		qps:             1000,
		burst:           2000,
		threads:         32,
		deleteLimit:     20,
		httpAddress:     ":8080",
		leaderElect:     true,
		leaseNamespace:  contract.SystemNamespace,
		leaseDuration:   15 * time.Second,
		loggingFormat:   formatText,
	}
}

func (o *options) register(flags *pflag.FlagSet) {
	flags.StringVar(&o.provisionerName, "provisioner-name", o.provisionerName, "the `name` that StorageClasses have as provisioner and ConfigMaps as plugin-name")
	flags.StringVar(&o.namespace, "namespace", o.namespace, "`namespace` of the provisioner ConfigMaps, their Secrets and the pods")
	flags.StringVar(&o.flexctlImage, "flexctl-image", o.flexctlImage, "`image` that holds flexctl, for inline scripts")
	flags.StringVar(&o.flexctlMount, "flexctl-mount", o.flexctlMount, "`how` inline scripts get flexctl: image (mount the image; Kubernetes 1.35 and containerd 2.1 or newer), copy (an init container; slower), or auto (by the API server's version)")
	flags.BoolVar(&o.insecure, "insecure-without-policies", false, "make pods even where the admission policies are missing that keep a provisioner from creating volumes other than its own")
	flags.IntVar(&o.deleteLimit, "delete-limit", o.deleteLimit, "how many `volumes` of a class that are older than a day may be deleted within an hour before the rest waits for an administrator; 0 is no limit; a class's ConfigMap may say otherwise")
	flags.StringVar(&o.podAPI, "pod-kube-api", "", "`URL` of the API server as provisioner pods reach it (default: this process's own, inside a cluster)")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server (default: the pod's ServiceAccount)")
	flags.Float32Var(&o.qps, "kube-api-qps", o.qps, "requests a second to the API server, beside those for events (50) and the Lease (10); the API server protects itself by its priorities")
	flags.IntVar(&o.burst, "kube-api-burst", o.burst, "requests to the API server at once")
	flags.IntVar(&o.threads, "threads", o.threads, "`threads` for each storage class; none of them ever waits for a pod")
	flags.StringVar(&o.httpAddress, "http-address", o.httpAddress, "`address` for /healthz, /readyz and /metrics")
	flags.BoolVar(&o.profiling, "profiling", false, "serve /debug/pprof/ on --http-address too; profiles show names of claims to whoever may ask")
	flags.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect, "work only while holding the Lease, so that several replicas can run")
	flags.StringVar(&o.leaseNamespace, "lease-namespace", o.leaseNamespace, "`namespace` of the Lease")
	flags.DurationVar(&o.leaseDuration, "lease-duration", o.leaseDuration, "how long a replica that died is waited for")
	flags.StringVar(&o.loggingFormat, "logging-format", o.loggingFormat, "`format` of the log: text, or json with one object a line")
}

// validate returns every fault with its flag, value and remedy.
func (o *options) validate() (*options, error) {
	var faults []error
	wrong := func(flag string, value any, remedy string) {
		faults = append(faults, fmt.Errorf("--%s=%v: %s", flag, value, remedy))
	}
	for _, fault := range configmaps.CheckPluginName(o.provisionerName, field.NewPath("--provisioner-name")) {
		faults = append(faults, fault)
	}
	for flag, value := range map[string]string{"namespace": o.namespace, "lease-namespace": o.leaseNamespace} {
		if why := validation.IsDNS1123Label(value); len(why) > 0 {
			wrong(flag, value, "name a namespace: "+strings.Join(why, "; "))
		}
	}
	if o.flexctlImage == "" {
		wrong("flexctl-image", `""`, "name the image that holds flexctl")
	}
	if o.flexctlMount != mountAuto && o.flexctlMount != mountImage && o.flexctlMount != mountCopy {
		wrong("flexctl-mount", o.flexctlMount, "say auto, image or copy")
	}
	if o.podAPI != "" {
		if u, err := url.Parse(o.podAPI); err != nil || u.Scheme != "https" || u.Host == "" {
			wrong("pod-kube-api", o.podAPI, "give a URL such as https://10.96.0.1:443")
		}
	}
	if o.kubeconfig != "" {
		if _, err := os.Stat(o.kubeconfig); err != nil {
			wrong("kubeconfig", o.kubeconfig, "name a file that can be read: "+err.Error())
		}
	}
	if o.qps <= 0 || o.burst < 1 {
		wrong("kube-api-qps", o.qps, "give a positive rate, and --kube-api-burst at least 1")
	}
	if o.threads < 1 || o.threads > 256 {
		wrong("threads", o.threads, "give 1 to 256")
	}
	if o.deleteLimit < 0 {
		wrong("delete-limit", o.deleteLimit, "give 0, for no limit, or more")
	}
	if _, _, err := net.SplitHostPort(o.httpAddress); err != nil {
		wrong("http-address", o.httpAddress, "give an address such as :8080")
	}
	if o.leaseDuration < 3*time.Second {
		wrong("lease-duration", o.leaseDuration, "give 3s or more: the Lease is renewed every fifth of it")
	}
	return o, utilerrors.NewAggregate(faults)
}

package conformance

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/conformance/sandbox"
	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/apiserver"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// stage has what the checks of a provisioner have in common: its storage, the API server, and the runs so far.
type stage struct {
	options  Options
	subject  *subject
	dir      string
	bin      string // the directory that holds flexctl
	storage  map[string]string
	api      *apiserver.Server
	listener *apiserver.Listener
	// level is what the pods may do beyond the contract.
	level level
	// source is the kind of the volumes that it makes.
	source string
	// misfit reports whether its volumes never fit their claims. One check reports that, and the others do not repeat it.
	misfit bool

	mutex  sync.Mutex
	number int
	tokens []string
	runs   []*run
	broken []finding
}

// level is what pods may do beyond the contract, to find out which rule a provisioner breaks.
type level struct{ writable, root bool }

// claim is a claim with the fields of its class.
type claim struct {
	contract.Request
	attempt int
}

// run is the run of a pod.
type run struct {
	Claim     contract.Claim
	Operation contract.Operation
	podspec.Outcome
	sandbox.Exit
	Output string
	// Cut reports whether the output is not all that was printed.
	Cut      bool
	Message  string
	TimedOut bool
	// Struck reports whether the kit sent it SIGKILL or SIGTERM.
	Struck bool
	// Raced reports whether the same operation ran for the same claim at the same time.
	Raced bool
	// Provoked reports whether the kit left out what the class always has, or asked for what it may not offer.
	Provoked bool
	// Fell reports whether the run made the canary in its /tmp.
	Fell bool
	// volume is the PersistentVolume as the provisioner sent it, if there was one when the run ended.
	volume []byte
	// Calls are the calls to the API server. They are those of this pod if no other ran at the same time.
	Calls []string
}

func (r *run) ok() bool { return r.ExitCode == contract.ExitDone }

// summary is the outcome of a run in one line.
func (r *run) summary() string {
	switch {
	case r.TimedOut:
		return fmt.Sprintf("%s did not end in time and was killed", r.Operation)
	case r.ok():
		return fmt.Sprintf("%s exited with code 0", r.Operation)
	case strings.TrimSpace(r.Message) == "":
		return fmt.Sprintf("%s exited with code %d and left no message", r.Operation, r.Code)
	}
	return fmt.Sprintf("%s exited with code %d, saying: %s", r.Operation, r.Code, r.Outcome.Message)
}

func newStage(o Options, s *subject, dir string) (*stage, error) {
	st := &stage{options: o, subject: s, dir: dir, bin: filepath.Join(dir, "bin"),
		storage: map[string]string{}, api: apiserver.New(o.Rights...)}
	if err := os.Mkdir(st.bin, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	if s.usesFlexctl() {
		if err := putFlexctl(o.Flexctl, st.bin); err != nil {
			return nil, err
		}
	}
	var paths []string
	for _, mount := range s.config.MountClaims {
		paths = append(paths, mount.Path)
	}
	for _, host := range s.config.HostPaths {
		paths = append(paths, host.Path)
	}
	for i, path := range paths {
		if _, given := o.Mounts[path]; given {
			continue
		}
		st.storage[path] = filepath.Join(dir, fmt.Sprintf("storage-%d", i))
		if err := st.newStorage(path); err != nil {
			return nil, err
		}
	}
	for name, secret := range o.Secrets {
		if err := st.addSecret(name, secret); err != nil {
			return nil, err
		}
	}
	st.api.AddNode(node)
	st.listener = apiserver.Listen(st.api)
	return st, nil
}

// putFlexctl copies the program into a directory of the PATH.
func putFlexctl(program, bin string) error {
	if program == "" {
		return errors.New("find flexctl: it is neither beside this program nor on the PATH; it is in the plugin's archive " +
			"for Linux, and in the image flexctl; or name it with --flexctl")
	}
	data, err := os.ReadFile(program)
	if err == nil {
		err = writeFile(filepath.Join(bin, "flexctl"), data, 0o755)
	}
	if err != nil {
		return fmt.Errorf("put flexctl there: %w", err)
	}
	return nil
}

// newStorage makes an empty directory that every user can write to, such as an export or a disk of a node.
func (s *stage) newStorage(path string) error {
	dir := s.storage[path]
	if err := os.Mkdir(dir, 0o777); err != nil {
		return fmt.Errorf("make storage: %w", err)
	}
	owner := sandbox.HostID(0, s.options.HostUsers)
	return errors.Join(os.Lchown(dir, owner, owner), os.Chmod(dir, 0o777))
}

// directory is the directory that pods have at a path.
func (s *stage) directory(path string) (string, error) {
	if dir, given := s.options.Mounts[path]; given {
		return filepath.Abs(dir)
	}
	return s.storage[path], nil
}

func (s *stage) secretDir(name string) string {
	dir := filepath.Join(s.dir, "secret-"+name)
	_ = os.MkdirAll(dir, 0o755) // a Secret of the ConfigMap that is not among the options is empty
	return dir
}

func (s *stage) addSecret(name, from string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return fmt.Errorf("read secret %s: %w", name, err)
	}
	for _, file := range files {
		if file.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, file.Name()))
		if err == nil {
			err = writeFile(filepath.Join(s.secretDir(name), file.Name()), data, 0o444)
		}
		if err != nil {
			return fmt.Errorf("read secret %s: %w", name, err)
		}
		s.tokens = append(s.tokens, secretWords(string(data))...)
	}
	return nil
}

func (s *stage) hostPort() (string, string) {
	address, _ := url.Parse(s.listener.URL) // cannot fail
	return address.Hostname(), address.Port()
}

// sizeOf is 1 GiB, or the nearest size that the class allows.
func sizeOf(config *configmaps.Config) int64 {
	size := max(int64(1<<30), config.MinSize)
	if config.MaxSize > 0 {
		size = min(size, config.MaxSize)
	}
	return size
}

// newClaim is a new claim.
func (s *stage) newClaim() *claim {
	uid := string(uuid.NewUUID())
	config := s.subject.config
	mode := corev1.PersistentVolumeFilesystem
	if len(config.VolumeModes) > 0 {
		mode = config.VolumeModes[0]
	}
	access := corev1.ReadWriteOnce
	if len(config.AccessModes) > 0 {
		access = config.AccessModes[0]
	}
	return &claim{Request: contract.Request{
		VolumeName:   podspec.VolumeName(uid),
		Claim:        contract.Claim{Namespace: "team-a", Name: "data", UID: uid},
		StorageClass: config.StorageClass, SizeBytes: sizeOf(config),
		AccessModes: []string{string(access)}, VolumeMode: string(mode),
		Username: "alice", Groups: []string{"team-a", "system:authenticated"},
		TimeoutSeconds: int64(s.options.Timeout.Seconds()),
		ServiceAccount: config.ServiceAccountName,
		Identity: contract.Identity{
			Properties: config.Properties, Parameters: s.options.Parameters,
			ClaimLabels: claimTexts(config.ClaimLabels), ClaimAnnotations: claimTexts(config.ClaimAnnotations),
		},
	}}
}

// claimTexts are values for labels or annotations of a claim.
func claimTexts(names []string) map[string]string {
	texts := map[string]string{}
	for _, name := range names {
		texts[name] = "conformance"
	}
	return texts
}

// object is the claim as an object of the API.
func (c *claim) object() *corev1.PersistentVolumeClaim {
	mode := corev1.PersistentVolumeMode(c.VolumeMode)
	object := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Claim.Namespace, Name: c.Claim.Name, UID: types.UID(c.Claim.UID)},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &c.StorageClass, VolumeMode: &mode,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: *resource.NewQuantity(c.SizeBytes, resource.BinarySI)}}},
	}
	for _, m := range c.AccessModes {
		object.Spec.AccessModes = append(object.Spec.AccessModes, corev1.PersistentVolumeAccessMode(m))
	}
	return object
}

// recordKey signs volumes as a dispatcher's key does, so that changed annotations of a volume are noticed.
var recordKey = make(podspec.RecordKey, podspec.MinRecordKey)

// build is the pod of the claim's next attempt, as the dispatcher builds it.
func (s *stage) build(op contract.Operation, c *claim, volume *corev1.PersistentVolume) (pod, error) {
	request := c.Request
	request.Operation, request.Attempt = op, c.attempt
	if op != contract.Provision {
		request.Username, request.Groups = "", nil
		if volume != nil {
			request.Location = volume.Annotations[contract.AnnLocation]
		}
	}
	if op == contract.Expand {
		request.CurrentSizeBytes, request.SizeBytes = request.SizeBytes, 2*request.SizeBytes
	}
	c.attempt++
	config := *s.subject.config
	config.Timeout = time.Duration(c.TimeoutSeconds) * time.Second
	if op == contract.Provision {
		var err error
		volume, err = podspec.Skeleton(request, podspec.ClassFields{Provisioner: contract.ProvisionerName,
			ReclaimPolicy: corev1.PersistentVolumeReclaimDelete, ConfigStamp: podspec.ConfigStamp(&config)})
		if err != nil {
			return pod{}, err
		}
		volume.Annotations[contract.AnnRecord] = recordKey.Sign(volume)
	}
	cluster := podspec.Cluster{Namespace: contract.ProvisionersNamespace, KubeAPI: s.listener.URL, FlexctlImage: "flexctl", ImageVolumes: true}
	made, err := podspec.Build(podspec.Attempt{Config: &config, Request: request, Volume: volume}, cluster)
	if op == contract.List {
		made, err = podspec.List(&config, s.options.Parameters, "", cluster)
	}
	if err != nil {
		return pod{}, err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.number++
	p := pod{Pod: made, dir: filepath.Join(s.dir, fmt.Sprintf("pod-%d", s.number)), subject: s.subject,
		token: "flex-conformance-token-" + rand.Text(), stage: s}
	s.tokens = append(s.tokens, p.token)
	bound := ""
	if op == contract.Provision {
		bound = c.VolumeName
	}
	s.api.Admit(p.token, bound)
	return p, os.Mkdir(p.dir, 0o755)
}

// started is a pod that runs.
type started struct {
	pod
	claim   *claim
	op      contract.Operation
	process *sandbox.Process
	output  *podOutput
}

// anyUser replaces the user that a cluster would choose.
const anyUser = 65532

func (s *stage) start(op contract.Operation, c *claim, volume *corev1.PersistentVolume) (*started, error) {
	p, err := s.build(op, c, volume)
	if err != nil {
		return nil, fmt.Errorf("make pod: %w", err)
	}
	mounts, err := p.mounts()
	if err != nil {
		return nil, err
	}
	scratch := filepath.Join(p.dir, "scratch")
	if err := os.Mkdir(scratch, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	user := anyUser
	if own := p.Spec.SecurityContext.RunAsUser; own != nil {
		user = int(*own)
	}
	if s.level.root {
		user = 0
	}
	spec := sandbox.Spec{Root: s.subject.root, Scratch: scratch, Writable: s.level.writable,
		User: user, HostUsers: s.options.HostUsers, Network: s.options.Network, Listen: s.listener.Address(),
		Mounts: mounts, Keep: []string{contract.TerminationFile, tmpDir},
		Command: p.command(), Env: p.env(), Dir: s.subject.program.WorkingDir}
	r := &started{pod: p, claim: c, op: op, output: &podOutput{}}
	// One buffer for both is written by one goroutine.
	r.process, err = sandbox.Start(spec, sandbox.Output{Stdout: r.output, Stderr: r.output})
	if err != nil {
		return nil, err
	}
	if r.process.Listener != nil {
		s.listener.Also(r.process.Listener)
	}
	return r, nil
}

// wait ends the pod at its deadline, as the kubelet does.
func (r *started) wait(ctx context.Context) (*run, error) {
	deadline, cancel := context.WithTimeout(ctx, time.Duration(r.claim.TimeoutSeconds)*time.Second)
	defer cancel()
	defer r.process.Close()
	exit, err := r.process.Wait(deadline)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, err
	}
	message, err := r.process.Tail(contract.TerminationFile, maxMessage)
	if err != nil {
		return nil, err
	}
	result := &run{Claim: r.claim.Claim, Operation: r.op, Outcome: r.outcome(exit, string(message)), Exit: exit,
		Output: r.output.String(), Cut: r.output.left > 0, Message: string(message),
		TimedOut: deadline.Err() != nil && exit.Signaled, Calls: r.stage.api.Calls(),
		Fell: r.process.Has(tmpDir, canary), volume: r.stage.api.Sent(r.claim.VolumeName)}
	r.stage.api.Revoke(r.token)
	r.stage.learnSecrets()
	r.stage.mutex.Lock()
	r.stage.runs = append(r.stage.runs, result)
	r.stage.mutex.Unlock()
	return result, removeAll(r.dir)
}

// do runs a pod to its end.
func (s *stage) do(ctx context.Context, op contract.Operation, c *claim, volume *corev1.PersistentVolume) (*run, error) {
	s.api.SetFault(nil) // resets the count of calls
	return s.finish(ctx, op, c, volume)
}

func (s *stage) finish(ctx context.Context, op contract.Operation, c *claim, volume *corev1.PersistentVolume) (*run, error) {
	r, err := s.start(op, c, volume)
	if err != nil {
		return nil, err
	}
	result, err := r.wait(ctx)
	if err == nil {
		s.checkOutcome(ctx, c, result)
	}
	return result, err
}

// remove does what the dispatcher does for a deleted claim: a delete if there is a volume, else an undo.
func (s *stage) remove(ctx context.Context, c *claim) (*run, error) {
	r, err := s.do(ctx, contract.Delete, c, s.api.Volume(c.VolumeName))
	if err == nil && r.ok() {
		s.api.RemoveVolume(c.VolumeName)
	}
	return r, err
}

// sees reports whether the kit can see the storage.
func (s *stage) sees() bool { return len(s.storage) > 0 || s.options.List != nil }

// maxFiles limits the storage that the kit looks at.
const maxFiles = 100_000

// listStorage lists all storage: the files and directories, or the output of the command.
func (s *stage) listStorage(ctx context.Context) ([]string, error) {
	var found []string
	for path, dir := range s.storage {
		err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			if name == dir || errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			if len(found) == maxFiles {
				return fmt.Errorf("there are more than %d files", maxFiles)
			}
			found = append(found, filepath.Join(path, strings.TrimPrefix(name, dir)))
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look at storage: %w", err)
		}
	}
	if s.options.List != nil {
		more, err := s.options.List(ctx)
		if err != nil {
			return nil, fmt.Errorf("list storage: %w", err)
		}
		found = append(found, more...)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// learnSecrets notes the secrets in the Secrets that the provisioner created.
func (s *stage) learnSecrets() {
	for _, secret := range s.api.Secrets() {
		for key, value := range secret.Data {
			word := string(value)
			if guarded.MatchString(key) && len(word) >= shortest && !slices.Contains(s.tokens, word) {
				s.tokens = append(s.tokens, word)
			}
		}
	}
}

// secretsOf returns the Secrets that the provisioner created. A delete has to remove them, as it has to remove storage.
func (s *stage) secretsOf() []string {
	var names []string
	for name := range s.api.Secrets() {
		names = append(names, "secret "+name)
	}
	return names
}

// describe is a volume in one line, in the form of YAML.
func describe(v *corev1.PersistentVolume) string {
	data, err := json.Marshal(v.Spec.PersistentVolumeSource)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/conformance/sandbox"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// node is the node that every pod runs on.
const node = "node-1"

// pod is a pod as the dispatcher builds it, and the directory with its volumes.
type pod struct {
	*corev1.Pod
	dir     string
	subject *subject
	token   string
	stage   *stage
}

// mounts creates a directory or file for each of the pod's volumes, as the kubelet does, and returns the mounts.
func (p pod) mounts() ([]sandbox.Mount, error) {
	at := map[string]corev1.VolumeMount{}
	for _, mount := range p.Spec.Containers[0].VolumeMounts {
		at[mount.Name] = mount
	}
	mounts := []sandbox.Mount{}
	for _, volume := range p.Spec.Volumes {
		if volume.EmptyDir != nil && volume.EmptyDir.SizeLimit != nil {
			mounts = append(mounts, sandbox.Mount{Memory: volume.EmptyDir.SizeLimit.Value(), Target: at[volume.Name].MountPath})
			continue
		}
		source, err := p.source(volume)
		if err != nil {
			return nil, fmt.Errorf("lay out volume %s of the pod: %w", volume.Name, err)
		}
		if source != "" {
			storage := volume.PersistentVolumeClaim != nil || volume.HostPath != nil
			readOnly := at[volume.Name].ReadOnly || !storage
			mounts = append(mounts, sandbox.Mount{Source: source, Target: at[volume.Name].MountPath, ReadOnly: readOnly})
		}
	}
	mounts = append(mounts, sandbox.Mount{Memory: 64 << 10, File: true, Target: contract.TerminationFile})
	if _, mounted := at["flexctl"]; p.subject.root == "/" && !mounted { // the machine stands for an image that has it
		mounts = append(mounts, sandbox.Mount{Source: p.stage.bin, Target: contract.BinDir, ReadOnly: true})
	}
	return mounts, nil
}

func (p pod) source(volume corev1.Volume) (string, error) {
	dir := filepath.Join(p.dir, volume.Name)
	switch {
	case volume.PersistentVolumeClaim != nil:
		return p.stage.directory(p.mountPath(volume.Name))
	case volume.HostPath != nil:
		return p.stage.directory(volume.HostPath.Path)
	case volume.Secret != nil:
		return p.stage.secretDir(volume.Secret.SecretName), nil
	case volume.Name == "flexctl":
		return p.stage.bin, nil
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if volume.Projected != nil {
		return dir, errors.Join(
			writeFile(filepath.Join(dir, "token"), []byte(p.token), 0o644),
			writeFile(filepath.Join(dir, "ca.crt"), p.stage.listener.CA, 0o644),
			writeFile(filepath.Join(dir, "namespace"), []byte(contract.ProvisionersNamespace), 0o644))
	}
	if volume.DownwardAPI == nil {
		return "", errors.New("its kind is not known here")
	}
	for _, item := range volume.DownwardAPI.Items {
		_, key, _ := strings.Cut(item.FieldRef.FieldPath, "'")
		mode := os.FileMode(0o644)
		if item.Mode != nil {
			mode = os.FileMode(*item.Mode)
		}
		if err := writeFile(filepath.Join(dir, item.Path), []byte(p.Annotations[strings.TrimSuffix(key, "']")]), mode); err != nil {
			return "", err
		}
	}
	if p.subject.script != nil {
		return dir, writeFile(filepath.Join(dir, filepath.Base(contract.ScriptFile)), p.subject.script, 0o555)
	}
	return dir, nil
}

func (p pod) mountPath(volume string) string {
	for _, mount := range p.Spec.Containers[0].VolumeMounts {
		if mount.Name == volume {
			return mount.MountPath
		}
	}
	return ""
}

// command is the pod's, the image's or the script's.
func (p pod) command() []string {
	container := p.Spec.Containers[0]
	if len(container.Command) > 0 {
		command := slices.Clone(container.Command)
		for i := range command {
			command[i] = unescape(command[i])
		}
		return command
	}
	if p.subject.script == nil {
		return slices.Concat(p.subject.program.Entrypoint, p.subject.program.Cmd)
	}
	if isProgram(p.subject.script) { // a program, which a ConfigMap cannot hold
		return []string{contract.ScriptFile}
	}
	return podspec.ScriptCommand(string(p.subject.script))
}

// env is the image's, or for what runs on the machine's own root the caller's PATH, and over it the pod's. The caller's
// other variables are his: credentials are among them.
func (p pod) env() []string {
	env := slices.Clone(p.subject.program.Env)
	if p.subject.root == "/" {
		env = []string{"PATH=" + os.Getenv("PATH") + ":" + contract.BinDir}
	} else if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "PATH=") }) {
		env = append(env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	host, port := p.stage.hostPort()
	env = append(env, "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port)
	for _, v := range p.Spec.Containers[0].Env {
		value := unescape(v.Value)
		if v.ValueFrom != nil {
			value = node
		}
		env = append(env, v.Name+"="+value)
	}
	return env
}

// unescape undoes the doubling of every $ by the dispatcher, as the kubelet does.
func unescape(value string) string { return strings.ReplaceAll(value, "$$", "$") }

// outcome is what the dispatcher would make of the pod's end.
func (p pod) outcome(exit sandbox.Exit, message string) podspec.Outcome {
	ended := p.DeepCopy()
	ended.Spec.NodeName = node
	ended.Status.Phase = corev1.PodFailed
	if exit.Code == contract.ExitDone {
		ended.Status.Phase = corev1.PodSucceeded
	}
	ended.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: podspec.ContainerName, ContainerID: "sandbox",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: int32(exit.Code), Reason: "Error", Message: message}}}}
	return podspec.OutcomeOf(ended)
}

// writeFile sets the mode whatever the umask is.
func writeFile(name string, data []byte, mode os.FileMode) error {
	if err := os.WriteFile(name, data, 0o600); err != nil {
		return err
	}
	return os.Chmod(name, mode)
}

package authors

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// checkout is this one. Tests change the directory.
var checkout, _ = filepath.Abs("../..") // fails without a working directory only

// TestMain lets nobody else read the files that tests write, as careful authors do.
func TestMain(m *testing.M) {
	syscall.Umask(0o077)
	sdktest.MainWithFlexctl(m, "github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex")
}

// written makes a provisioner of a template and returns its program.
func written(t *testing.T, language string) (program string) {
	t.Helper()
	t.Chdir(t.TempDir())
	run(t, ".", "kubectl-flex", "new", "disks", "--lang", language, "--sdk", checkout)
	switch language {
	case "shell":
		program = "disks/provisioner.sh"
	case "python":
		if _, err := exec.LookPath("python3"); err != nil {
			t.Skip("this machine has no python3")
		}
		program = "disks/provisioner.py"
	case "go":
		run(t, "disks", "go", "mod", "tidy")
		run(t, "disks", "go", "vet", ".")
		run(t, "disks", "go", "test", ".")
		run(t, "disks", "env", "CGO_ENABLED=0", "go", "build", "-o", "provisioner", ".")
		program = "disks/provisioner"
	}
	program, err := filepath.Abs(program)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

func run(t *testing.T, dir string, command ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
}

// TestTemplates: the first steps of each template. That it keeps the whole contract is shown by the conformance kit.
func TestTemplates(t *testing.T) {
	for _, language := range []string{"shell", "go", "python"} {
		t.Run(language, func(t *testing.T) {
			program := written(t, language)
			mount, server := t.TempDir(), sdktest.NewServer(t)
			properties := map[string]string{"server": "10.0.0.1", "export": "/srv/nfs", "mount": mount}
			request := sdktest.Provision(properties)
			dir := filepath.Join(mount, request.VolumeName)
			provision := func() sdktest.Pod { return sdktest.NewPod(t, request, sdktest.Skeleton(request), server) }
			remove := func(properties map[string]string, volume *corev1.PersistentVolume) sdktest.Pod {
				return sdktest.NewPod(t, sdktest.Delete(properties), volume, nil)
			}
			for _, step := range []struct {
				name  string
				pod   sdktest.Pod
				code  int
				there bool
			}{
				{"undo of nothing", remove(properties, nil), contract.ExitDone, false},
				{"delete of what is away", remove(properties, sdktest.Skeleton(request)), contract.ExitTryAgain, false},
				{"provision", provision(), contract.ExitDone, true},
				{"provision again", provision(), contract.ExitDone, true},
				{"expand", sdktest.NewPod(t, sdktest.Expand(properties), sdktest.Skeleton(request), nil), contract.ExitDone, true},
				{"without properties", sdktest.NewPod(t, sdktest.Provision(nil), sdktest.Skeleton(request), server), contract.ExitRefused, true},
				{"delete", remove(properties, sdktest.Skeleton(request)), contract.ExitDone, false},
				{"expand of what is away", sdktest.NewPod(t, sdktest.Expand(properties), sdktest.Skeleton(request), nil), contract.ExitTryAgain, false},
				{"delete again", remove(properties, sdktest.Skeleton(request)), contract.ExitDone, false},
			} {
				code, output := execute(t, program, step.pod)
				_, err := os.Stat(dir)
				if code != step.code || (err == nil) != step.there {
					t.Errorf("%s: exit code %d, want %d; directory is there: %v, want %v\n%s", step.name, code, step.code, err == nil, step.there, output)
				}
				if message := step.pod.Message(t); (message == "") != (code == contract.ExitDone) {
					t.Errorf("%s: exit code %d with the message %q", step.name, code, message)
				}
			}
			wantLists(t, language, program, sdktest.NewPod(t, sdktest.List(properties), nil, nil), mount)
			sent := server.Volume(request.VolumeName)
			var volume corev1.PersistentVolume
			if err := json.Unmarshal(sent, &volume); err != nil {
				t.Fatalf("the volume is %s: %v", sent, err)
			}
			if nfs := volume.Spec.NFS; nfs == nil || *nfs != (corev1.NFSVolumeSource{Server: "10.0.0.1", Path: "/srv/nfs/" + request.VolumeName}) {
				t.Errorf("the volume is %s", sent)
			}
		})
	}
}

// wantLists: operation list names what is there, and away is not empty. Inline scripts are never asked.
func wantLists(t *testing.T, language, program string, pod sdktest.Pod, mount string) {
	t.Helper()
	const other = "pvc-6f1c0d0e-9f0e-4b6e-8f44-3b1b8c6a9d10"
	if language == "shell" {
		return
	}
	if err := os.Mkdir(filepath.Join(mount, other), 0o755); err != nil {
		t.Fatal(err)
	}
	want := "storage " + other + " ssh 10.0.0.1 rm -rf -- /srv/nfs/" + other + "\n"
	if code, output := execute(t, program, pod); code != contract.ExitDone || output != want {
		t.Errorf("list: exit code %d, printed\n%swant\n%s", code, output, want)
	}
	if err := os.Remove(filepath.Join(mount, ".disks")); err != nil {
		t.Fatal(err)
	}
	if code, _ := execute(t, program, pod); code != contract.ExitNotHere {
		t.Errorf("list where the export is away: exit code %d, want %d", code, contract.ExitNotHere)
	}
}

func execute(t *testing.T, program string, pod sdktest.Pod) (code int, output string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(pod.Env(), "PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

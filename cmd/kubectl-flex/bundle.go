package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/internal/version"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func newBundle(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "bundle [FILE]",
		Short: "Write one archive for support, without secrets",
		Long: `Write an archive with all that it takes to look into a problem elsewhere: versions, what check,
status and why say, the objects of the dispatcher and of its classes, claims and volumes, their
events, and the dispatcher's log. FILE is flex-bundle-TIME.tar.gz by default; - is standard output.

It reads no Secret, and it has no value of a property, a parameter, a script or an annotation that
is not known to be none: (redacted) stands for them. It has no log of a provisioner pod. Names of
namespaces, claims, nodes and servers are in it: look at it before you pass it on.`,
		Example: "  kubectl flex bundle\n  kubectl flex bundle - | tar -tz",
		Args:    args(0, 1, "at most one file"),
		RunE: func(c *cobra.Command, args []string) error {
			file := "flex-bundle-" + o.now().UTC().Format("20060102-150405") + ".tar.gz"
			if len(args) > 0 {
				file = args[0]
			}
			return o.bundle(c.Context(), file)
		},
	}
}

// Limits on a bundle: the number of claims of which it says why they wait, and the size of a log.
const (
	maxStories = 200
	maxLog     = 8 << 20
)

// part is a file of a bundle.
type part struct{ name, text string }

// bundler collects the parts of a bundle.
type bundler struct {
	reader
	redactor
	parts []part
	// problems are about what could not be read. The rest is worth as much.
	problems []string
}

func (o *options) bundle(ctx context.Context, file string) error {
	r, err := o.read(ctx, "", everything...)
	if err != nil {
		return err
	}

	b := &bundler{reader: r}
	if err := b.collect(ctx); err != nil {
		return err
	}
	data, err := b.archive()
	if err != nil {
		return err
	}
	if file == "-" {
		_, err := o.Out.Write(data)
		return err
	}
	if err := writeNew(file, data); err != nil {
		return err
	}

	for _, problem := range b.problems {
		fmt.Fprintln(o.ErrOut, "not in it:", contract.OneLine(problem))
	}
	fmt.Fprintf(o.Out, "%s has %d files. It has no Secret; look at it before you pass it on.\n", file, len(b.parts))
	return nil
}

// writeNew writes a file that only its owner reads, and never over another one.
func writeNew(name string, data []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// collect adds the objects before the texts, in which what it hid of them may be quoted.
func (b *bundler) collect(ctx context.Context) error {
	d := b.o.Dispatcher
	installation, pods := b.installation(ctx)
	own := b.o.Own()
	configs := append(b.o.OwnConfigMaps(), b.o.Unlabelled...)
	for _, cm := range []*corev1.ConfigMap{b.o.AllowList, b.o.Stop} {
		if cm != nil {
			configs = append(configs, cm)
		}
	}

	lists := []struct {
		name    string
		objects []runtime.Object
	}{
		{"dispatcher.yaml", installation},
		{"configmaps.yaml", asObjects(configs)},
		{"controllerrevisions.yaml", append(asObjects(b.o.Revisions), asObjects(b.o.Saved)...)},
		{"storageclasses.yaml", asObjects(own.Classes)},
		{"persistentvolumeclaims.yaml", asObjects(own.Claims)},
		{"persistentvolumes.yaml", asObjects(own.Volumes)},
		{"pods.yaml", asObjects(b.o.Pods)},
		{"volumesnapshots.yaml", asObjects(own.Requests)},
		{"volumesnapshotcontents.yaml", asObjects(own.Contents)},
		{"volumesnapshotclasses.yaml", asObjects(own.SnapshotClasses)},
		{"events.yaml", asObjects(own.Events)},
	}
	redacted := make([][]any, len(lists))
	for i, list := range lists {
		for _, object := range list.objects {
			data, err := b.object(object)
			if err != nil {
				return err
			}
			redacted[i] = append(redacted[i], data)
		}
	}
	for i, list := range lists {
		if err := b.addList(list.name, redacted[i]); err != nil {
			return err
		}
	}

	if err := b.addTexts(ctx); err != nil {
		return err
	}
	b.addLogs(ctx, pods)
	for _, u := range b.o.Unread {
		b.problems = append(b.problems, fmt.Sprintf("%s: it takes the right to %s", u.Kind, u.Right))
	}
	b.add("version.txt", fmt.Sprintf("client %s\ndispatcher %s\nimage %s\nKubernetes %s\nprovisioner %s\n",
		version.String(), d.Version, d.Image, b.kubernetes(), d.Provisioner))
	b.add("not-in-it.txt", strings.Join(b.problems, "\n"))
	return nil
}

// add adds a text without what looks like a secret.
func (b *bundler) add(name, text string) {
	if text != "" {
		b.parts = append(b.parts, part{name, b.text(contract.Lines(text))})
	}
}

func (b *bundler) addList(name string, objects []any) error {
	if len(objects) == 0 {
		return nil
	}
	text, err := yaml.Marshal(map[string]any{"kind": "List", "apiVersion": "v1", "items": b.texts(objects)})
	if err != nil {
		return err
	}
	b.parts = append(b.parts, part{name, string(text)})
	return nil
}

func asObjects[T any, P interface {
	*T
	runtime.Object
}](list []P) []runtime.Object {
	objects := make([]runtime.Object, len(list))
	for i := range list {
		objects[i] = list[i]
	}
	return objects
}

// kubernetes is the version of the API server.
func (b *bundler) kubernetes() string {
	server, err := b.client.Discovery().ServerVersion()
	if err != nil {
		return "of unknown version"
	}
	return server.GitVersion
}

// installation has the dispatcher's Deployment and pods.
func (b *bundler) installation(ctx context.Context) (objects []runtime.Object, pods []*corev1.Pod) {
	deployment, err := b.client.AppsV1().Deployments(b.system).Get(ctx, deploymentName, metav1.GetOptions{})
	if err != nil {
		b.problems = append(b.problems, fmt.Sprintf("the dispatcher: %v", err))
		return nil, nil
	}
	selector := metav1.FormatLabelSelector(deployment.Spec.Selector)
	list, err := b.client.CoreV1().Pods(b.system).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		b.problems = append(b.problems, fmt.Sprintf("the dispatcher's pods: %v", err))
		list = &corev1.PodList{}
	}
	pods = pointers(list.Items)
	return append([]runtime.Object{deployment}, asObjects(pods)...), pods
}

// addTexts adds what check, status and why say, without logs of provisioner pods: an image may print anything.
func (b *bundler) addTexts(ctx context.Context) error {
	needs := slices.DeleteFunc(b.o.Needs(b.o.OwnConfigMaps()), func(ref inspect.Ref) bool { return ref.Kind == "Secret" })
	if err := b.checkExists(ctx, needs); err != nil {
		return err
	}
	findings := b.o.Check(nil)
	check, err := b.printed(func(o *options) error { return o.printFindings(findings) })
	if err != nil {
		return err
	}
	b.add("check.txt", check)

	view := b.o.Overview("")
	status, err := b.printed(func(o *options) error { o.output = "wide"; return o.showOverview(view) })
	if err != nil {
		return err
	}
	b.add("status.txt", status)

	for i, s := range view.Claims {
		if i == maxStories {
			b.problems = append(b.problems, fmt.Sprintf("why for %d more claims", len(view.Claims)-i))
			break
		}
		story, _ := b.printed(func(o *options) error { o.printStory(b.o.StoryOf(s.UID)); return nil })
		b.add("why/"+s.UID+".txt", story)
	}
	return nil
}

// printed is what a command prints where its output is no terminal.
func (b *bundler) printed(show func(o *options) error) (string, error) {
	var out bytes.Buffer
	o := *b.options
	o.Out, o.ErrOut, o.output, o.headed, o.width, o.color = &out, io.Discard, "table", false, 0, "never"
	err := show(&o)
	return out.String(), err
}

// addLogs adds the log of each dispatcher, and of the container before it.
func (b *bundler) addLogs(ctx context.Context, pods []*corev1.Pod) {
	for _, pod := range pods {
		for _, previous := range []bool{false, true} {
			if previous && !restarted(pod) {
				continue
			}
			name := "logs/" + pod.Name + ".txt"
			if previous {
				name = "logs/" + pod.Name + "-previous.txt"
			}
			log, err := b.log(ctx, pod, previous)
			if err != nil {
				b.problems = append(b.problems, fmt.Sprintf("%s: %v", name, err))
				continue
			}
			b.add(name, log)
		}
	}
}

func restarted(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == "dispatcher" && status.RestartCount > 0 {
			return true
		}
	}
	return false
}

// log is the end of the dispatcher's log.
func (b *bundler) log(ctx context.Context, pod *corev1.Pod, previous bool) (string, error) {
	lines := int64(20_000)
	stream, err := b.client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: "dispatcher", Previous: previous, TailLines: &lines}).Stream(ctx)
	if err != nil {
		return "", errors.New(podspec.Clean(err.Error()))
	}
	defer stream.Close()

	text, err := io.ReadAll(io.LimitReader(stream, maxLog))
	return string(text), err
}

// archive is the bundle as a .tar.gz with one folder.
func (b *bundler) archive() ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	w := tar.NewWriter(zipped)
	for _, p := range b.parts {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join("flex-bundle", p.name), Mode: 0o600, Size: int64(len(p.text)), ModTime: b.now()}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(w, p.text); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
)

// maxFile is the limit in bytes on a file.
const maxFile = 4 << 20

// manifest reads files and directories, and for "-" standard input.
func (o *options) manifest(names []string) (*inspect.Manifest, []inspect.Fault, error) {
	m := inspect.NewManifest()
	var faults []inspect.Fault
	for _, name := range names {
		files := []string{name}
		if info, err := os.Stat(name); name != "-" && err == nil && info.IsDir() {
			if files, err = manifestsIn(name); err != nil {
				return nil, nil, err
			}
		}
		for _, file := range files {
			text, err := o.readFile(file)
			if err != nil {
				return nil, nil, err
			}
			faults = append(faults, m.Parse(file, text)...)
		}
	}
	return m, faults, nil
}

// manifestsIn lists the files of a directory that kubectl would read, without those of its subdirectories.
func manifestsIn(directory string) ([]string, error) {
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) && !entry.IsDir() {
			files = append(files, filepath.Join(directory, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("directory %s has no file with the extension .yaml, .yml or .json", directory)
	}
	return files, nil
}

func (o *options) readFile(name string) ([]byte, error) {
	in := o.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return text, err
}

// checkExists reads whether the objects that ConfigMaps name exist. For objects that may not be read it stays unknown.
func (r reader) checkExists(ctx context.Context, refs []inspect.Ref) error {
	if r.o.Exists == nil {
		r.o.Exists = map[inspect.Ref]bool{}
	}
	namespace := r.o.Dispatcher.Namespace
	for _, ref := range refs {
		if r.o.Exists[ref] {
			continue
		}
		var err error
		kind := inspect.Kind(ref.Kind + "s in " + namespace)
		switch ref.Kind {
		case "ServiceAccount":
			_, err = r.client.CoreV1().ServiceAccounts(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		case "Secret":
			_, err = r.client.CoreV1().Secrets(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		default:
			_, err = r.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		}
		switch {
		case err == nil:
			r.o.Exists[ref] = true
		case apierrors.IsNotFound(err):
			r.o.Exists[ref] = false
		default:
			if err := r.noteForbidden(kind, "get such objects in namespace "+namespace, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// denied asks for each class's ServiceAccount whether it may create volumes. Who may not ask is told nothing.
func (r reader) denied(ctx context.Context) error {
	needs, unread := r.o.Needs(r.o.OwnConfigMaps()), r.o.Unread
	faults, err := r.checkPermissions(ctx, needs)
	r.o.Unread = unread
	for _, ref := range needs {
		object := "ServiceAccount " + r.o.Dispatcher.Namespace + "/" + ref.Name
		if slices.ContainsFunc(faults, func(f inspect.Fault) bool { return f.Object == object }) {
			r.o.Denied = append(r.o.Denied, ref.Name)
		}
	}
	return err
}

// checkPermissions returns a fault for each ServiceAccount that may not create volumes by RBAC. The admission policies
// decide which volumes.
func (r reader) checkPermissions(ctx context.Context, refs []inspect.Ref) (faults []inspect.Fault, err error) {
	asked := map[string]bool{}

	for _, ref := range refs {
		if ref.Kind != "ServiceAccount" || asked[ref.Name] {
			continue
		}
		asked[ref.Name] = true

		namespace := r.o.Dispatcher.Namespace
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + namespace + ":" + ref.Name,
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "create", Resource: "persistentvolumes"},
		}}
		review, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			return nil, r.noteForbidden("permissions of ServiceAccounts", "create subjectaccessreviews", err)
		}
		if err != nil {
			return nil, fmt.Errorf("read permissions of ServiceAccount %s/%s: %w", namespace, ref.Name, err)
		}

		if !review.Status.Allowed {
			faults = append(faults, inspect.Fault{
				Object: "ServiceAccount " + namespace + "/" + ref.Name,
				Message: "may not create PersistentVolumes: apply deploy/base, " +
					"whose ClusterRoleBinding flex-provisioner-pod allows it",
			})
		}
	}
	return faults, nil
}

// withFiles reads the cluster's objects, and replaces them by those of the files. With offline there are those of the files alone.
func (o *options) withFiles(ctx context.Context, names []string, offline bool) (r reader, m *inspect.Manifest, faults []inspect.Fault, err error) {
	m, faults, err = o.manifest(names)
	if err != nil {
		return r, nil, nil, err
	}
	if offline {
		r = reader{options: o, o: inspect.Offline(&inspect.Objects{Now: o.now()})}
	} else {
		if r, err = o.read(ctx, "", everything...); err != nil {
			return r, nil, nil, err
		}
		if err = r.nodesFor(ctx, m.Classes); err != nil {
			return r, nil, nil, err
		}
	}
	if o.namespace != "" {
		r.o.Dispatcher.Namespace = o.namespace
	}
	if o.provisioner != "" {
		r.o.Dispatcher.Provisioner = o.provisioner
	}
	return r, m, faults, nil
}

// onlyClaim is the claim of a manifest, which has to have exactly one.
func onlyClaim(m *inspect.Manifest) (*corev1.PersistentVolumeClaim, error) {
	if len(m.Claims) != 1 {
		return nil, errors.New("the file has to have one PersistentVolumeClaim")
	}
	return m.Claims[0], nil
}

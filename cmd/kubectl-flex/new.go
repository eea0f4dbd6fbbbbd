package main

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/internal/version"
)

// templates are the folders that new writes: class for all languages, and one for each language. Files that Go would compile have
// the extension .tmpl.
//
//go:embed templates
var templates embed.FS

const (
	module = "github.com/flex-provisioner/flex-provisioner"
	// goVersion is the minimum version for the SDK.
	goVersion = "1.26.0"
	// maxName leaves room for prefixes and suffixes in names of objects.
	maxName = 40
)

var languages = []string{"shell", "go", "python"}

// project has the values of the templates.
type project struct {
	Name, Go, Module string
	// Version is the version of the SDK. If that is no release, Checkout is the folder of its sources.
	Version, Checkout string
	// FlexctlImage and ShellImage are the images of the project that the provisioner's own begins with.
	FlexctlImage, ShellImage string
}

func newNew(o *options) *cobra.Command {
	var language, checkout string
	cmd := &cobra.Command{
		Use:   "new NAME --lang shell|go|python",
		Short: "Write a provisioner to start from, with its class",
		Long: `Writes a folder NAME: a small whole provisioner, the manifests of the storage class NAME, a claim
and its consumer, and a README that says how to run it. It needs no cluster.`,
		Example: `  kubectl flex new disks --lang shell
  kubectl flex new disks --lang go`,
		Args: args(1, 1, "a name, of the folder and the storage class"),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := newProject(args[0], language, checkout)
			if err != nil {
				return err
			}
			if err := writeProject(p, language); err != nil {
				return err
			}
			_, err = fmt.Fprintf(o.Out, "%s is there; go on with %s/README.md\n", p.Name, p.Name)
			return err
		},
	}
	cmd.Flags().StringVar(&language, "lang", "shell", "`LANGUAGE` of the provisioner: shell, go or python")
	cmd.Flags().StringVar(&checkout, "sdk", "", "`FOLDER` with the sources of the SDK, for Go\n(default: the release of this program, else the checkout that it lies in)")
	if err := cmd.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(languages, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is there
	}
	return cmd
}

func newProject(name, language, checkout string) (project, error) {
	if faults := validation.IsDNS1123Label(name); len(faults) > 0 || len(name) > maxName {
		return project{}, fmt.Errorf("name %q: write at most %d small letters, digits and '-', beginning and ending with a letter or digit", name, maxName)
	}
	if !slices.Contains(languages, language) {
		return project{}, fmt.Errorf("--lang: %q is none of %s", language, strings.Join(languages, ", "))
	}

	p := project{Name: name, Go: goVersion, Module: module, Version: "v0.0.0",
		FlexctlImage: version.Image("flexctl"), ShellImage: version.Image("shell")}
	if language != "go" {
		return p, nil
	}

	if v := version.String(); checkout == "" && isRelease(v) {
		p.Version = v
		return p, nil
	}

	if checkout == "" {
		self, err := os.Executable()
		if err != nil {
			return project{}, err
		}
		checkout = filepath.Dir(filepath.Dir(self)) // the program is bin/kubectl-flex in a checkout
	}
	checkout, err := filepath.Abs(checkout)
	if err != nil {
		return project{}, err
	}
	p.Checkout = checkout
	text, err := os.ReadFile(filepath.Join(p.Checkout, "go.mod"))
	if err != nil || !bytes.HasPrefix(text, []byte("module "+module+"\n")) {
		return project{}, fmt.Errorf("--sdk: %s is no checkout of %s; give the folder of one", p.Checkout, module)
	}
	return p, nil
}

func isRelease(v string) bool {
	return regexp.MustCompile(`^v\d+\.\d+\.\d+$`).MatchString(v) && v != "v0.0.0"
}

// writeProject writes the whole project, or leaves nothing behind.
func writeProject(p project, language string) error {
	if err := os.Mkdir(p.Name, 0o755); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already; choose another name, or remove it", p.Name)
	} else if err != nil {
		return err
	}
	for _, folder := range []string{"class", language} {
		if err := writeFolder(p, "templates/"+folder); err != nil {
			return errors.Join(err, os.RemoveAll(p.Name))
		}
	}
	return nil
}

func writeFolder(p project, folder string) error {
	entries, err := templates.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		text, err := fill(p, path.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if bytes.HasPrefix(text, []byte("#!")) {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(p.Name, strings.TrimSuffix(entry.Name(), ".tmpl")), text, mode); err != nil {
			return err
		}
	}
	return nil
}

func fill(p project, name string) ([]byte, error) {
	t, err := template.ParseFS(templates, name)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = t.Execute(&text, p)
	return text.Bytes(), err
}

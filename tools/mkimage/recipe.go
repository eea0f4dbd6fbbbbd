package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"sigs.k8s.io/yaml"
)

// Recipe says what is in an image. It is read from an image.yaml, strictly: an unknown key is an error.
type Recipe struct {
	// Base is another recipe, as a path from this one's folder, whose packages, licences, files, env, labels, user, workdir and
	// entrypoint this one starts from. Its names are not taken.
	Base string `json:"base,omitempty"`
	// Names are the references that the archive carries, each with its tag.
	Names []string `json:"names"`
	// Entrypoint is the program and its first arguments.
	Entrypoint []string `json:"entrypoint,omitempty"`
	// User is a number, so that a kubelet can see that it is not root.
	User string `json:"user,omitempty"`
	// Workdir is the program's working directory; empty is /.
	Workdir string            `json:"workdir,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Packages are Debian packages whose files lie below Files, of their documentation the licences alone. What they depend
	// on is not followed: name it as well.
	Packages []string `json:"packages,omitempty"`
	// Licences are folders of licence texts, as paths from the recipe's folder, whose files lie in the image below /licenses.
	// What comes from a Debian package brings its own, below /usr/share/doc.
	Licences []string `json:"licences,omitempty"`
	// Files lie in the image in order of their paths; a later one replaces an earlier one of the same path.
	Files []File `json:"files,omitempty"`

	// arch is what the image is for; empty is this machine's.
	arch string
}

// File is one thing in an image. Exactly one of From, Text, Link and Dir says what.
type File struct {
	// Path is absolute, in the image. Folders above it are made with mode 0755.
	Path string `json:"path"`
	// From is a file to copy, as a path from the recipe's folder or absolute.
	From string `json:"from,omitempty"`
	// Text is the file's content.
	Text string `json:"text,omitempty"`
	// Link is what a symbolic link points to.
	Link string `json:"link,omitempty"`
	Dir  bool   `json:"dir,omitempty"`
	// Mode is octal, as in "0755". Without it a folder or a program gets 0755 and any other file 0644.
	Mode string `json:"mode,omitempty"`
	// Applets adds a link to this file for each name that From prints with --list, as busybox does, in the same folder.
	Applets bool `json:"applets,omitempty"`

	// foreign is From as another architecture has it.
	foreign string
}

// source is where the file's content lies.
func (f *File) source() string {
	if f.foreign != "" {
		return f.foreign
	}
	return f.From
}

// LoadRecipe reads a recipe with all that it starts from, and checks it.
func LoadRecipe(file string) (*Recipe, error) {
	recipe, err := loadRecipe(file, nil)
	if err != nil {
		return nil, err
	}
	if err := recipe.validate(); err != nil {
		return nil, fmt.Errorf("recipe %s: %w", file, err)
	}
	return recipe, nil
}

func loadRecipe(file string, above []string) (*Recipe, error) {
	file = filepath.Clean(file)
	if slices.Contains(above, file) {
		return nil, fmt.Errorf("recipe %s: base: leads back to itself: remove one of %s", file, strings.Join(above, ", "))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read recipe: %w", err)
	}
	recipe := &Recipe{}
	if err := yaml.UnmarshalStrict(data, recipe); err != nil {
		return nil, fmt.Errorf("recipe %s: %w", file, err)
	}
	folder := filepath.Dir(file)
	for i, f := range recipe.Files {
		if f.From != "" && !filepath.IsAbs(f.From) {
			recipe.Files[i].From = filepath.Join(folder, f.From)
		}
	}
	for i, dir := range recipe.Licences {
		recipe.Licences[i] = filepath.Join(folder, dir)
	}
	if recipe.Base == "" {
		return recipe, nil
	}
	base, err := loadRecipe(filepath.Join(folder, recipe.Base), append(above, file))
	if err != nil {
		return nil, fmt.Errorf("recipe %s: base: %w", file, err)
	}
	return base.with(recipe), nil
}

// with returns top on top of r.
func (r *Recipe) with(top *Recipe) *Recipe {
	out := *top
	out.Entrypoint = slices.Clone(top.Entrypoint)
	if len(top.Entrypoint) == 0 {
		out.Entrypoint = r.Entrypoint
	}
	if top.User == "" {
		out.User = r.User
	}
	if top.Workdir == "" {
		out.Workdir = r.Workdir
	}
	out.Env = merged(r.Env, top.Env)
	out.Labels = merged(r.Labels, top.Labels)
	out.Packages = slices.Concat(r.Packages, top.Packages)
	out.Licences = slices.Concat(r.Licences, top.Licences)
	out.Files = slices.Concat(r.Files, top.Files)
	return &out
}

func merged(base, top map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, base)
	maps.Copy(out, top)
	return out
}

// packageName keeps options of apt-get out.
var packageName = regexp.MustCompile(`^[a-z0-9][a-z0-9.+-]*$`)

func (r *Recipe) validate() error {
	var errs []error
	if len(r.Names) == 0 {
		errs = append(errs, errors.New("names: is empty: give the image at least one name:tag"))
	}
	for i, n := range r.Names {
		if _, err := name.NewTag(n, name.StrictValidation); err != nil {
			errs = append(errs, fmt.Errorf("names[%d]: %q: %w", i, n, err))
		}
	}
	for i, p := range r.Packages {
		if !packageName.MatchString(p) {
			errs = append(errs, fmt.Errorf("packages[%d]: %q is no name of a Debian package", i, p))
		}
	}
	for i, f := range r.Files {
		if err := f.validate(); err != nil {
			errs = append(errs, fmt.Errorf("files[%d] (%s): %w", i, f.Path, err))
		}
	}
	return errors.Join(errs...)
}

func (f *File) validate() error {
	if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path == "/" {
		return fmt.Errorf("path: %q: must be absolute, clean and not /", f.Path)
	}
	kinds := 0
	for _, set := range []bool{f.From != "", f.Text != "", f.Link != "", f.Dir} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return errors.New("must have exactly one of from, text, link and dir")
	}
	if f.Applets && f.From == "" {
		return errors.New("applets: needs from: the program to ask")
	}
	if _, err := f.mode(0); err != nil {
		return err
	}
	return nil
}

// mode is the file's own mode, or without one the given default.
func (f *File) mode(byDefault int64) (int64, error) {
	if f.Mode == "" {
		return byDefault, nil
	}
	mode, err := strconv.ParseInt(f.Mode, 8, 64)
	if err != nil || mode < 0 || mode > 0o7777 {
		return 0, fmt.Errorf("mode: %q: must be octal, as in \"0755\"", f.Mode)
	}
	return mode, nil
}

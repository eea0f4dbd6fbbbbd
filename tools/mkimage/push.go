package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Push copies the image of an archive, or an index of several, to a reference in a registry and returns what it is there, by
// digest. Credentials are those that docker login stored.
func Push(ctx context.Context, archives []string, reference string, insecure bool) (string, error) {
	var options []name.Option
	if insecure {
		options = append(options, name.Insecure)
	}
	ref, err := name.ParseReference(reference, options...)
	if err != nil {
		return "", fmt.Errorf("push to %s: %w", reference, err)
	}
	images, err := readArchives(archives)
	if err != nil {
		return "", err
	}
	with := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if len(images) == 1 {
		err = remote.Write(ref, images[0], with...)
	} else {
		var index v1.ImageIndex
		if index, err = indexOf(images); err == nil {
			err = remote.WriteIndex(ref, index, with...)
		}
	}
	if err != nil {
		return "", fmt.Errorf("push %v to %s: %w", archives, reference, err)
	}
	digest, err := Digest(archives...)
	if err != nil {
		return "", err
	}
	return ref.Context().Digest(digest).String(), nil
}

// Digest is what the archive's image, or the index of several, has in a registry.
func Digest(archives ...string) (string, error) {
	images, err := readArchives(archives)
	if err != nil {
		return "", err
	}
	var whole interface{ Digest() (v1.Hash, error) } = images[0]
	if len(images) > 1 {
		if whole, err = indexOf(images); err != nil {
			return "", err
		}
	}
	digest, err := whole.Digest()
	if err != nil {
		return "", fmt.Errorf("digest of %v: %w", archives, err)
	}
	return digest.String(), nil
}

func readArchives(archives []string) ([]v1.Image, error) {
	var images []v1.Image
	for _, archive := range archives {
		image, err := tarball.ImageFromPath(archive, nil)
		if err != nil {
			return nil, fmt.Errorf("read archive %s: %w", archive, err)
		}
		images = append(images, image)
	}
	return images, nil
}

// indexOf is one reference for images of several architectures, from which each node takes its own.
func indexOf(images []v1.Image) (v1.ImageIndex, error) {
	var parts []mutate.IndexAddendum
	var seen []string
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return nil, err
		}
		if slices.Contains(seen, config.Architecture) {
			return nil, fmt.Errorf("two images are for %s", config.Architecture)
		}
		seen = append(seen, config.Architecture)
		parts = append(parts, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: config.Platform()}})
	}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.DockerManifestList), parts...), nil
}

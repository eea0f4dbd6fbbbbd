package main

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Push copies the image of an archive to a reference in a registry and returns what it is there, by digest. Credentials
// are those that docker login stored.
func Push(ctx context.Context, archive, reference string, insecure bool) (string, error) {
	var options []name.Option
	if insecure {
		options = append(options, name.Insecure)
	}
	ref, err := name.ParseReference(reference, options...)
	if err != nil {
		return "", fmt.Errorf("push to %s: %w", reference, err)
	}
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		return "", fmt.Errorf("read archive %s: %w", archive, err)
	}
	if err := remote.Write(ref, image, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", fmt.Errorf("push %s to %s: %w", archive, reference, err)
	}
	digest, err := Digest(archive)
	if err != nil {
		return "", err
	}
	return ref.Context().Digest(digest).String(), nil
}

// Digest is what the archive's image has in a registry.
func Digest(archive string) (string, error) {
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		return "", fmt.Errorf("read archive %s: %w", archive, err)
	}
	digest, err := image.Digest()
	if err != nil {
		return "", fmt.Errorf("digest of %s: %w", archive, err)
	}
	return digest.String(), nil
}

// Command mkimage makes container images from a short recipe and a few files, with no registry, no parent image and no
// daemon: the same files always give the same archive, byte for byte.
//
//	mkimage build -o bin/images/shell.tar images/shell/image.yaml
//	mkimage push bin/images/shell.tar registry.example/flex-provisioner/shell:v1
//
// Archives of several architectures are pushed as one index:
//
//	mkimage build -arch arm64 -o arm64/shell.tar images/shell/image.yaml
//	mkimage push amd64/shell.tar arm64/shell.tar registry.example/flex-provisioner/shell:v1
//
// For machines without a registry it can be one, which forgets everything when it ends:
//
//	mkimage serve -listen 127.0.0.1:5000
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
)

const usage = `usage:
  mkimage build -o ARCHIVE [-arch ARCH] RECIPE    make a docker-archive that containerd and docker load,
                                                  its digest and the list of its components
  mkimage push [-insecure] ARCHIVE... REFERENCE   copy an archive's image to a registry, with docker's credentials;
                                                  of several architectures, as one index
  mkimage digest ARCHIVE...                       the digest that they have there
  mkimage serve -listen ADDRESS [-credentials FILE]
                                                  be a registry, in memory; FILE holds the name:password that it demands`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mkimage:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "build":
		return runBuild(args[1:])
	case "push":
		return runPush(ctx, args[1:])
	case "digest":
		return runDigest(args[1:])
	case "serve":
		return runServe(ctx, args[1:])
	}
	return fmt.Errorf("unknown command %q\n%s", args[0], usage)
}

func runBuild(args []string) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	out := flags.String("o", "", "archive to write")
	arch := flags.String("arch", runtime.GOARCH, "architecture the image says it is for")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || flags.NArg() != 1 {
		return errors.New(usage)
	}
	recipe, err := LoadRecipe(flags.Arg(0))
	if err != nil {
		return err
	}
	if err := recipe.toArch(*arch); err != nil {
		return fmt.Errorf("build %s: %w", flags.Arg(0), err)
	}
	image, err := BuildImage(recipe, *arch)
	if err != nil {
		return fmt.Errorf("build %s: %w", flags.Arg(0), err)
	}
	if err := WriteArchive(*out, image, recipe.Names); err != nil {
		return err
	}
	return writeBeside(*out, recipe)
}

// writeBeside writes what an archive is to be known by: ARCHIVE.digest, which the image has in every registry that it is
// pushed to, and ARCHIVE.cdx.json, what it consists of.
func writeBeside(archive string, recipe *Recipe) error {
	digest, err := Digest(archive)
	if err != nil {
		return err
	}
	components, err := SBOM(recipe)
	if err != nil {
		return err
	}
	stem := strings.TrimSuffix(archive, ".tar")
	return errors.Join(os.WriteFile(stem+".digest", []byte(digest+"\n"), 0o644), os.WriteFile(stem+".cdx.json", components, 0o644))
}

func runPush(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("push", flag.ContinueOnError)
	insecure := flags.Bool("insecure", false, "allow a registry without TLS")
	if err := flags.Parse(args); err != nil {
		return err
	}
	last := flags.NArg() - 1
	if last < 1 {
		return errors.New(usage)
	}
	pushed, err := Push(ctx, flags.Args()[:last], flags.Arg(last), *insecure)
	if err != nil {
		return err
	}
	fmt.Println(pushed)
	return nil
}

func runDigest(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	digest, err := Digest(args...)
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}

func runServe(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	listen := flags.String("listen", "", "address to listen on, such as 127.0.0.1:5000")
	file := flags.String("credentials", "", "file with the name:password that is demanded")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *listen == "" || flags.NArg() != 0 {
		return errors.New(usage)
	}
	credentials, err := readCredentials(*file)
	if err != nil {
		return err
	}
	return Serve(ctx, *listen, credentials, os.Stdout)
}

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func newDirnameCommand(root string) *cobra.Command {
	return &cobra.Command{
		Use:   "dirname PATTERN",
		Short: "Print a readable name for the claim's directory",
		Long: `Prints PATTERN with these in place of what they name:

  ${.PVC.namespace}  ${.PVC.name}  ${.PV.name}
  ${.PVC.labels.KEY}  ${.PVC.annotations.KEY}  of those that the class's claim-labels and claim-annotations name

The result is the name of one directory: letters, digits, '.', '_' and '-', at most 255, with a letter or digit first. If it
would be anything else, or the name of another volume's directory, the request is refused with exit code 64. Two claims may
get the same name: the script has to tell their directories apart.`,
		Example: `  dir=/export/$(flexctl dirname '${.PVC.namespace}.${.PVC.name}')`,
		Args:    atMost(1, "put the pattern in quotes"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("flexctl dirname: give it a pattern, such as '${.PVC.namespace}.${.PVC.name}'")
			}
			request, err := bare.LoadRequest(root)
			if err != nil {
				return err
			}
			name, err := directoryName(args[0], request)
			if err != nil {
				return bare.Refuse(err)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), name)
			return err
		},
	}
}

// directoryName is the name of a directory by a pattern. The author of the claim wrote its parts.
func directoryName(pattern string, request contract.Request) (string, error) {
	name := ""
	for rest := pattern; rest != ""; {
		text, reference, found := strings.Cut(rest, "${")
		name += text
		if !found {
			break
		}
		reference, after, closed := strings.Cut(reference, "}")
		if !closed {
			return "", fmt.Errorf("path-pattern %q has no } after ${%s", pattern, reference)
		}
		value, err := referredTo(reference, request)
		if err != nil {
			return "", fmt.Errorf("path-pattern %q: %w", pattern, err)
		}
		name, rest = name+value, after
	}

	if fault := nameFault(name, request.VolumeName); fault != "" {
		return "", fmt.Errorf("path-pattern %q gives the directory %q, which %s", pattern, name, fault)
	}
	return name, nil
}

// referredTo is the value of a reference such as .PVC.name.
func referredTo(reference string, request contract.Request) (string, error) {
	for _, known := range []struct {
		prefix, kind, key string
		texts             map[string]string
	}{
		{".PVC.labels.", "label", "claim-labels", request.ClaimLabels},
		{".PVC.annotations.", "annotation", "claim-annotations", request.ClaimAnnotations},
	} {
		name, found := strings.CutPrefix(reference, known.prefix)
		if !found {
			continue
		}
		value, given := known.texts[name]
		switch {
		case !given:
			return "", fmt.Errorf("the class does not have the %s %s: add it to the key %s of its ConfigMap", known.kind, name, known.key)
		case value == "":
			return "", fmt.Errorf("the claim has no %s %s: give it one", known.kind, name)
		}
		return value, nil
	}
	switch reference {
	case ".PVC.namespace":
		return request.Claim.Namespace, nil
	case ".PVC.name":
		return request.Claim.Name, nil
	case ".PV.name":
		return request.VolumeName, nil
	}
	return "", fmt.Errorf("${%s} is not known; known are ${.PVC.namespace}, ${.PVC.name}, ${.PV.name}, ${.PVC.labels.KEY} and "+
		"${.PVC.annotations.KEY}", reference)
}

const lettersAndDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// nameFault says why a name cannot be that of the volume's directory, empty where it can.
func nameFault(name, volume string) string {
	const longest = 255 // of all file systems
	switch {
	case name == "" || !strings.Contains(lettersAndDigits, name[:1]):
		return "has to begin with a letter or digit"
	case strings.ContainsFunc(name, notInNames):
		return "has to be one name of letters, digits, '.', '_' and '-'"
	case len(name) > longest:
		return fmt.Sprintf("has %d characters, and at most %d are allowed", len(name), longest)
	case strings.HasPrefix(name, "archived-"):
		return "is kept for archived directories"
	case name != volume && strings.HasPrefix(name, "pvc-") && len(name) == len(volume):
		return "is kept for the volume of that name"
	}
	return ""
}

func notInNames(r rune) bool { return !strings.ContainsRune(lettersAndDigits+"._-", r) }

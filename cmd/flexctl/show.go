package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func newRequestCommand(root string) *cobra.Command {
	return &cobra.Command{
		Use:   "request [FIELD]",
		Short: "Print the request, or one field of it",
		Long: `Without FIELD prints request.json. With FIELD prints one value: text as it is, a list one item a line, what else holds
fields as JSON. A field that the request may leave out is an empty line; a property that is not there is an error.`,
		Example: `  flexctl request claim.namespace
  flexctl request properties.zone
  flexctl request accessModes`,
		Args:              atMost(1, "one field at a time"),
		ValidArgsFunction: cobra.FixedCompletions(requestFields(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := bare.LoadRequest(root); err != nil {
				return err
			}
			data, err := os.ReadFile(filepath.Join(root, contract.RequestFile))
			if err != nil {
				return fmt.Errorf("read request: %w", err)
			}
			if len(args) == 0 {
				return printIndented(cmd.OutOrStdout(), data)
			}
			value, err := lookUp(data, args[0], requestFields())
			if err != nil {
				return fmt.Errorf("request: %w", err)
			}
			return printValue(cmd.OutOrStdout(), value)
		},
	}
}

func newVolumeCommand(root string) *cobra.Command {
	return &cobra.Command{
		Use:   "volume [FIELD]",
		Short: "Print the PersistentVolume beside the request, or one field of it",
		Long: `To delete, it is the volume that is being deleted; to provision, the skeleton that create-pv completes. For an undo
there is none: nothing is printed, and that is success. A number in FIELD counts the items of a list from 0.`,
		Example: `  flexctl volume spec.csi.volumeHandle
  flexctl volume spec.mountOptions.0
  [ -n "$(flexctl volume metadata.name)" ] || undo=true`,
		Args: atMost(1, "one field at a time"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request, err := bare.LoadRequest(root)
			if err != nil {
				return err
			}
			volume, err := loadVolume(root, request)
			if err != nil || volume == nil {
				return err
			}
			data, err := os.ReadFile(filepath.Join(root, contract.VolumeFile))
			if err != nil {
				return fmt.Errorf("read volume: %w", err)
			}
			if len(args) == 0 {
				_, err = cmd.OutOrStdout().Write(data)
				return err
			}
			if data, err = yaml.YAMLToJSON(data); err != nil {
				return fmt.Errorf("read volume: %w", err)
			}
			value, err := lookUp(data, args[0], nil)
			if err != nil {
				return fmt.Errorf("volume: %w", err)
			}
			return printValue(cmd.OutOrStdout(), value)
		},
	}
}

func printIndented(out io.Writer, data []byte) error {
	var text bytes.Buffer
	if err := json.Indent(&text, data, "", "  "); err != nil {
		return fmt.Errorf("print request: %w", err)
	}
	_, err := fmt.Fprintln(out, text.String())
	return err
}

func printValue(out io.Writer, value any) error {
	items, isList := value.([]any)
	if !isList {
		items = []any{value}
	}
	for _, item := range items {
		if err := printItem(out, item); err != nil {
			return err
		}
	}
	return nil
}

// printItem prints a value unchanged, even with special characters, since scripts compare it.
func printItem(out io.Writer, item any) error {
	switch item := item.(type) {
	case map[string]any, []any:
		data, err := json.Marshal(item)
		if err != nil {
			return fmt.Errorf("print: %w", err)
		}
		_, err = fmt.Fprintln(out, string(data))
		return err
	default: // text, a json.Number or a bool
		_, err := fmt.Fprintln(out, item)
		return err
	}
}

// requestFields are the JSON names of the request's fields, sorted.
func requestFields() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[contract.Request]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

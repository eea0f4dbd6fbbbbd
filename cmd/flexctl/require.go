package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flex-provisioner/flex-provisioner/sdk"
)

func newRequireCommand(root string) *cobra.Command {
	return &cobra.Command{
		Use:   "require PROPERTY...",
		Short: "Refuse unless the class sets these properties",
		Long: `Succeeds if the ConfigMap or the StorageClass sets each of the properties to something. Otherwise the request is refused
with exit code 64 and a message that names all that are missing. Call it before anything is made.`,
		Example:               `  flexctl require server export`,
		DisableFlagsInUseLine: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("flexctl require: name at least one property")
			}
			request, err := sdk.LoadRequest(root)
			if err != nil {
				return err
			}
			return require(request, args)
		},
	}
}

func require(request sdk.Request, names []string) error {
	var lacking []string
	for _, name := range names {
		if request.Properties[name] == "" && request.Parameters[name] == "" {
			lacking = append(lacking, fmt.Sprintf("%q", name))
		}
	}
	switch len(lacking) {
	case 0:
		return nil
	case 1:
		return sdk.Refuse(fmt.Errorf("property %s is missing: set it in the class's ConfigMap", lacking[0]))
	}
	return sdk.Refuse(fmt.Errorf("properties %s are missing: set them in the class's ConfigMap", strings.Join(lacking, ", ")))
}

package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
)

func newFailCommand() *cobra.Command {
	var refuse, notHere, tryAgain bool
	cmd := &cobra.Command{
		Use:   "fail [--refuse | --not-here | --try-again] MESSAGE",
		Short: "Tell the claim's owner what is wrong, and exit with the contract's code",
		Long: `Writes MESSAGE to the pod's termination message and exits: 64 with --refuse, 69 with --not-here, 75 with --try-again,
else 1. --refuse and --not-here promise that nothing was made. The script around it ends as well under set -e; in a
condition or on the left of || write "exit" yourself. The claim's owner reads the message: no secrets in it.`,
		Example: `  [ -n "${ZONE-}" ] || flexctl fail --refuse 'property "zone" is missing'
  df /srv >/dev/null || flexctl fail --try-again "/srv does not answer"
  flexctl fail -- "$message"`,
		DisableFlagsInUseLine: true,
		Args:                  atMost(1, "put the message in quotes"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || strings.TrimSpace(args[0]) == "" {
				return errors.New("flexctl fail: the message is empty; say what the claim's owner or the administrator can do")
			}
			err := errors.New(args[0])
			switch {
			case refuse:
				return bare.Refuse(err)
			case notHere:
				return bare.NotHere(err)
			case tryAgain:
				return bare.TryAgain(err)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&refuse, "refuse", false, "the request can never work, and nothing was made (64)")
	flags.BoolVar(&notHere, "not-here", false, "not on this node, and nothing was made (69)")
	flags.BoolVar(&tryAgain, "try-again", false, "nothing is wrong, try again soon (75)")
	cmd.MarkFlagsMutuallyExclusive("refuse", "not-here", "try-again")
	return cmd
}

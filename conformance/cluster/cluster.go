package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/conformance"
	"github.com/flex-provisioner/flex-provisioner/quantity"
)

// Options are the options of a run.
type Options struct {
	// Config is the client configuration for the cluster.
	Config *rest.Config
	// Class is the StorageClass to check.
	Class string
	// Namespace is that of the claims and the pods that use them. If it is empty, the run creates a namespace.
	Namespace string
	// ProvisionersNamespace is the namespace of the provisioner pods.
	ProvisionersNamespace string
	// Size is the size of the claims, by default 1 GiB, or the nearest size that the class allows.
	Size string
	// ConsumerImage is the image of the pods that use the volumes. It has to have sh, cat, dd and sync.
	ConsumerImage string
	// Timeout limits each wait, such as that for a claim to be bound or for a volume to be gone.
	Timeout time.Duration
	// Kills is how many pods of an operation are removed, at moments spread over a run of it.
	Kills int
	// List is as in conformance.Options: it lists all storage. It is nil if that is not possible.
	List func(context.Context) ([]string, error)
	// Only are the names of the checks that run; empty for all. The others count as skipped.
	Only []string
	// Done is called with each result. It may be nil.
	Done func(conformance.Result)
}

// Run checks a class. The error is about what kept the kit from checking, or from removing what it made. There may be a report although
// there is an error. Faults of the class are in the report. When ctx ends, everything that was made is still removed.
func Run(ctx context.Context, o Options) (report *conformance.Report, err error) {
	if faults := o.validate(); len(faults) > 0 {
		return nil, faults.ToAggregate()
	}
	api, err := connect(o.Config)
	if err != nil {
		return nil, err
	}
	s := &stage{options: o, api: api}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	report = &conformance.Report{Subject: "class " + o.Class + " on " + api.host}
	for _, c := range checks() {
		result, err := s.try(ctx, c, report.Results)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", c.Name, err)
		}
		report.Add(result, o.Done)
	}
	report.Runs = len(s.watcher.all())
	report.Judge()
	return report, nil
}

func (o Options) validate() field.ErrorList {
	var faults field.ErrorList
	if o.Class == "" {
		faults = append(faults, field.Required(field.NewPath("class"), "name the StorageClass that is to be tried"))
	}
	if o.Size != "" {
		if size, err := quantity.Parse(o.Size); err != nil || size.Sign() <= 0 {
			faults = append(faults, field.Invalid(field.NewPath("size"), o.Size, "must be a quantity above 0, such as 1Gi"))
		}
	}
	if o.Timeout < time.Second {
		faults = append(faults, field.Invalid(field.NewPath("timeout"), o.Timeout.String(), "must be at least 1s"))
	}
	if o.Kills < 1 {
		faults = append(faults, field.Invalid(field.NewPath("kills"), o.Kills, "must be at least 1"))
	}
	return append(faults, conformance.Unknown(o.Only, Checks())...)
}

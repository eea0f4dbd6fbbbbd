package main

import (
	"context"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

var _ sdk.Lister = provisioner{}

// List is sdk.Lister's. Parameters that this version does not know are passed over, as for a delete.
func (p provisioner) List(ctx context.Context, request sdk.Request) ([]sdk.Storage, error) {
	request.Parameters = parameters.Known(request.Parameters)
	request.Properties = parameters.KnownProperties(request.Properties)
	f, secrets, err := p.flow(request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := withDeadline(ctx, request)
	defer cancel()
	storage, err := f.List(ctx)
	return storage, redact(err, secrets)
}

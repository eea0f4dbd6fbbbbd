package main

import (
	"context"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

var _ sdk.Lister = provisioner{}

// List implements sdk.Lister. As Delete, it ignores unknown parameters.
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

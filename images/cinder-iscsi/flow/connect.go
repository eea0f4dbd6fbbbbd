package flow

import (
	"context"
	"fmt"
	"reflect"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/mapper"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// connect exports the volume to all its connectors, and maps it. It can be repeated until there is a PersistentVolume. Some arrays return new
// credentials each time, and the last ones are valid.
func (f *Flow) connect(ctx context.Context, id string) (mapped mapper.Mapped, readOnly bool, err error) {
	for i, connector := range f.connectors() {
		data, err := f.cinder.Connect(ctx, id, connector)
		if err != nil {
			return mapper.Mapped{}, false, err
		}
		connection, err := mapper.Decode(data)
		if err != nil {
			return mapper.Mapped{}, false, sdk.Refuse(fmt.Errorf("connect cinder volume %s: %w", id, err))
		}
		this, err := mapper.Map(connection, f.mapperInput(id))
		switch {
		case err != nil:
			return mapper.Mapped{}, false, sdk.Refuse(err)
		case i > 0 && !reflect.DeepEqual(this, mapped):
			return mapper.Mapped{}, false, sdk.Refuse(fmt.Errorf("cinder volume %s has another target, LUN or secret for node %v than for the first one, and a volume can have one; use another initiatorMode",
				id, connector["host"]))
		}
		mapped, readOnly = this, connection.ReadOnly
	}
	return mapped, readOnly, nil
}

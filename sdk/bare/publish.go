package bare

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Publish writes into the VolumeAttachment of a request to attach what the node has to know, in place of what an earlier attempt wrote.
// The node side gets it as its publish context. Transient errors are retried as by Create. The dispatcher marks the volume as attached
// after the pod has succeeded.
func Publish(ctx context.Context, client *Client, request contract.Request, metadata map[string]string) error {
	if request.Operation != contract.Attach {
		return fmt.Errorf("publish: the operation is %s; only attach has something for a node to know", request.Operation)
	}
	if metadata == nil {
		metadata = map[string]string{}
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	patch, err := json.Marshal([]operation{
		{"test", "/metadata/uid", request.Attachment.UID}, {"add", "/status/attachmentMetadata", metadata},
	})
	if err != nil {
		return fmt.Errorf("encode metadata of volumeattachment %s: %w", request.Attachment.Name, err)
	}
	path := "/apis/storage.k8s.io/v1/volumeattachments/" + url.PathEscape(request.Attachment.Name) + "/status"
	_, err = retry(ctx, "patch volumeattachment "+request.Attachment.Name,
		func(ctx context.Context) error { return client.patch(ctx, path, patch) })
	return err
}

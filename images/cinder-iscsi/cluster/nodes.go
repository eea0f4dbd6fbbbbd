package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// nodesAtOnce is the page size of lists. It limits the memory for a large cluster, since nodes are large objects.
const nodesAtOnce = 100

// nodeList and node have only the fields that are used.
type nodeList struct {
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []node `json:"items"`
}

type node struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Status struct {
		InUse    []string `json:"volumesInUse"`
		Attached []struct {
			Name string `json:"name"`
		} `json:"volumesAttached"`
	} `json:"status"`
}

// NodesUsing lists the nodes that mount the volume, or that it is attached to, by the statuses that kubelets and the attach-detach controller
// write.
func (c *Client) NodesUsing(ctx context.Context, source corev1.PersistentVolumeSource) ([]string, error) {
	volume := UniqueName(source)
	if volume == "" {
		return nil, nil
	}
	var using []string
	err := c.eachNode(ctx, func(node node) {
		used := slices.Contains(node.Status.InUse, volume)
		for _, attached := range node.Status.Attached {
			used = used || attached.Name == volume
		}
		if used {
			using = append(using, node.Metadata.Name)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%w: it shows whether one still uses the volume", err)
	}
	return using, nil
}

// NodeLabels are the values of a label by the names of the nodes that have it.
func (c *Client) NodeLabels(ctx context.Context, label string) (map[string]string, error) {
	values := map[string]string{}
	err := c.eachNode(ctx, func(node node) {
		if value, found := node.Metadata.Labels[label]; found {
			values[node.Metadata.Name] = value
		}
	})
	return values, err
}

// eachNode calls do for each node.
func (c *Client) eachNode(ctx context.Context, do func(node)) error {
	from := ""
	for {
		list, err := c.listNodes(ctx, "continue", from)
		if err != nil {
			return err
		}
		for _, node := range list.Items {
			do(node)
		}
		if from = list.Metadata.Continue; from == "" {
			return nil
		}
	}
}

// NodeLabel is the value of a node's label, empty if the node or the label is missing. It lists that one node, so that the provisioner
// needs only the right to list.
func (c *Client) NodeLabel(ctx context.Context, node, label string) (string, error) {
	list, err := c.listNodes(ctx, "fieldSelector", "metadata.name="+node)
	if err != nil || len(list.Items) == 0 {
		return "", err
	}
	return list.Items[0].Metadata.Labels[label], nil
}

func (c *Client) listNodes(ctx context.Context, parameter, value string) (nodeList, error) {
	var list nodeList
	request := c.rest.Get().Resource("nodes").Param("limit", strconv.Itoa(nodesAtOnce))
	if value != "" {
		request = request.Param(parameter, value)
	}
	body, err := request.DoRaw(ctx)
	if err != nil {
		return list, fmt.Errorf("list nodes: %w", err)
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return list, fmt.Errorf("list nodes: %w", err)
	}
	return list, nil
}

// UniqueName is the kubelet's name of a volume in a node's status. Each volume plugin has its own form. It is empty for sources that the
// provisioner does not make.
func UniqueName(s corev1.PersistentVolumeSource) string {
	switch {
	case s.ISCSI != nil:
		return fmt.Sprintf("kubernetes.io/iscsi/%s:%s:%d", s.ISCSI.TargetPortal, s.ISCSI.IQN, s.ISCSI.Lun)
	case s.FC != nil && s.FC.Lun != nil:
		return fmt.Sprintf("kubernetes.io/fc/[%s]:%d", strings.Join(s.FC.TargetWWNs, " "), *s.FC.Lun)
	case s.RBD != nil:
		return fmt.Sprintf("kubernetes.io/rbd/%s:%s", s.RBD.RBDPool, s.RBD.RBDImage)
	case s.CSI != nil:
		return fmt.Sprintf("kubernetes.io/csi/%s^%s", s.CSI.Driver, s.CSI.VolumeHandle)
	}
	return ""
}

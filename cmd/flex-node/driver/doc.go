// Package driver is the CSI driver of flex-node: the services Identity and Node.
//
// It owns what is allowed, and the order of the steps. A request becomes a Volume, and pure functions choose the next
// step by what the node has. So the program may be killed between any two steps: whoever asks again goes on from there.
// It may import the types of CSI and Kubernetes, and sdk/contract. It never touches the node itself: that is what a
// Host does.
package driver

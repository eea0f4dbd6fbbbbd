#!/bin/bash
# on-node.sh ADDRESS COMMAND: what a disruptive test runs on a node by SSH. There is no systemd, so that its commands for the kubelet
# become those of test/cluster/ctl.sh. There is no sudo either, which the suite asks for first.
set -eu
cd "$(dirname "$0")/../.."
node=node${1##*.} command=$2
kubelet=kubelet@$node
[ "$node" != node1 ] || kubelet=kubelet
case $command in
"sudo "*) echo "sudo: command not found" >&2 && exit 127 ;;
"systemctl stop kubelet") exec test/cluster/ctl.sh kill "$kubelet" ;;
"systemctl start kubelet") exec test/cluster/ctl.sh start "$kubelet" ;;
"systemctl show kubelet --property ActiveState --value") test/cluster/ctl.sh pid "$kubelet" > /dev/null && echo active || echo inactive ;;
*) exec test/cluster/enter.sh --node "$node" bash -c "$command" ;;
esac

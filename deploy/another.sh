#!/bin/sh
# Prints the installation of another dispatcher, for a provisioner name of its own, which works beside the first:
#
#   deploy/another.sh fast example.com/fast | kubectl apply -f -
#
# It lives in fast-system, and its ConfigMaps, pods and Secrets in fast-provisioners. The ClusterRoles are the same for all.
# A name without "/", such as fast.example.com, has a CSIDriver, for which the scheduler heeds nodes that refused.
set -eu
[ $# -eq 2 ] || { echo "usage: $0 NAME PROVISIONER-NAME" >&2; exit 64; }
name=$1 provisioner=$2
lease=flex-provisioner-$(printf %s "$provisioner" | tr /. --)
args="--provisioner-name=$provisioner, --namespace=$name-provisioners, --lease-namespace=$name-system"
kubectl kustomize "$(dirname "$0")/base" | sed \
	-e "s/flex-system/$name-system/g; s/flex-provisioners/$name-provisioners/g" \
	-e "/^kind: ValidatingAdmissionPolicy/,/^---/ s/^  name: flex-/  name: $name-/" \
	-e "s/^  policyName: flex-/  policyName: $name-/" \
	-e "/^kind: ClusterRoleBinding/,/^roleRef:/ s/^  name: flex-/  name: $name-/" \
	-e "/^kind: Role$/,/^---/ s/^  - flex-provisioner$/  - $lease/" \
	-e "/^kind: ValidatingAdmissionPolicy/,/^---/ s|flex-provisioner.io/dispatcher|$provisioner|g" \
	-e "s|args: \[\]|args: [$args]|"
case $provisioner in
*/*) ;;
*)
	echo ---
	sed "s/flex-system/$name-system/g; s/PROVISIONER-NAME/$provisioner/g" "$(dirname "$0")/components/capacity/capacity.yaml"
	;;
esac

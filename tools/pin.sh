#!/bin/bash
# pin.sh REGISTRY: writes bin/deploy, which is deploy/base with the images of bin/images by their digests, as they are
# below REGISTRY once "bin/mkimage push" has brought them there.
set -eu
registry=${1:?usage: pin.sh REGISTRY, such as registry.example/flex}
cd "$(dirname "$0")/.."
digest() { cat "bin/images/$1.digest"; }
mkdir -p bin/deploy
cat > bin/deploy/kustomization.yaml << YAML
# Written by tools/pin.sh: kubectl apply -k bin/deploy
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- ../../deploy/base
images:
- name: docker.io/flex-provisioner/flex-provisioner
  newName: $registry/flex-provisioner
  digest: $(digest flex-provisioner)
patches:
- target: {kind: Deployment, name: flex-provisioner}
  patch: |
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --flexctl-image=$registry/flexctl@$(digest flexctl)}
YAML
for archive in bin/images/*.digest; do
	image=$(basename "$archive" .digest)
	echo "$registry/$image@$(digest "$image")"
done

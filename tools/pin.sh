#!/bin/bash
# pin.sh REGISTRY [DIGESTS [FOLDER]]: writes FOLDER/kustomization.yaml (bin/deploy), which is deploy/base with the images by
# their digests, as they are below REGISTRY once "bin/mkimage push" has brought them there. DIGESTS (bin/images) is the
# folder with IMAGE.digest. It prints all images.
set -eu
registry=${1:?usage: pin.sh REGISTRY [DIGESTS [FOLDER]], with a registry such as registry.example/flex}
digests=$(realpath "${2:-$(dirname "$0")/../bin/images}")
folder=$(realpath -m "${3:-$(dirname "$0")/../bin/deploy}")
base=$(realpath "$(dirname "$0")/../deploy/base")
mkdir -p "$folder"
digest() { cat "$digests/$1.digest"; }
cat > "$folder/kustomization.yaml" << YAML
# Written by tools/pin.sh: kubectl apply --server-side -k
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- $(realpath --relative-to="$folder" "$base")
images:
- name: registry.invalid/flex-provisioner/flex-provisioner
  newName: $registry/flex-provisioner
  digest: $(digest flex-provisioner)
patches:
- target: {kind: Deployment, name: flex-provisioner}
  patch: |
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --flexctl-image=$registry/flexctl@$(digest flexctl)}
YAML
for file in "$digests"/*.digest; do
	image=$(basename "$file" .digest)
	echo "$registry/$image@$(digest "$image")"
done

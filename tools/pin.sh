#!/bin/bash
# pin.sh REGISTRY [DIGESTS [FOLDER]]: writes FOLDER/kustomization.yaml (bin/deploy), which is deploy/base with the images
# by their digests, as they are below REGISTRY. It prints all images. DIGESTS is a folder with IMAGE.digest. Without it,
# the images of bin/images are pushed, with the credentials of "docker login" or "podman login". VERSION=v0.1.0 is the
# label by which kubectl flex knows the version, which a digest does not say.
set -eu
registry=${1:?usage: pin.sh REGISTRY [DIGESTS [FOLDER]], with a registry such as registry.example/flex}
tools=$(realpath "$(dirname "$0")")
digests=$(realpath -m "${2:-$tools/../bin/digests}")
folder=$(realpath -m "${3:-$tools/../bin/deploy}")
base=$(realpath "$tools/../deploy/base")
mkdir -p "$folder" "$digests"
if [ $# = 1 ]; then
	for archive in "$tools"/../bin/images/*.tar; do
		image=$(basename "$archive" .tar)
		pushed=$("$tools/push.sh" "$archive" "$registry/$image:dev")
		echo "${pushed#*@}" > "$digests/$image.digest"
	done
fi

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
${VERSION:+    - {op: add, path: /metadata/labels/app.kubernetes.io~1version, value: $VERSION\}}
YAML
for file in "$digests"/*.digest; do
	image=$(basename "$file" .digest)
	echo "$registry/$image@$(digest "$image")"
done

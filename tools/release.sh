#!/bin/bash
# release.sh build|push VERSION REGISTRY: what make release does, in two steps.
#   build   writes bin/release/VERSION with all files, and asks nobody but Debian's archive. The same commit gives the same
#           bytes.
#   push    copies the images and the chart to REGISTRY, with the credentials of docker login, and signs them.
# Settings:
#   KEY=cosign.key      signs, with the password in COSIGN_PASSWORD; without it nothing is signed
#   DOWNLOADS=URL       where the plugin's archives will lie; default: the project's releases
#   IMAGE_ARCHES, PLUGIN_PLATFORMS   fewer, for a trial
set -euo pipefail
cd "$(dirname "$0")/.."
usage() { sed -n '2,5s/^# \?//p' "$0" >&2; exit 64; }
[ $# -eq 3 ] || usage
step=$1 version=$2 registry=${3%/}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || { echo "release: VERSION=$version: give a tag such as v0.1.0" >&2; exit 64; }
[[ $registry =~ ^[a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+$ ]] || { echo "release: REGISTRY=$registry: give a registry and a folder in it, such as registry.example/flex" >&2; exit 64; }
module=github.com/flex-provisioner/flex-provisioner
read -ra arches <<< "${IMAGE_ARCHES:-amd64 arm64}"
read -ra platforms <<< "${PLUGIN_PLATFORMS:-linux_amd64 linux_arm64 darwin_amd64 darwin_arm64 windows_amd64}"
downloads=${DOWNLOADS:-https://$module/releases/download/$version}
out=bin/release/$version stage=bin/release/stage
images=()
for file in images/*/Dockerfile; do images+=("$(basename "${file%/*}")"); done

# program OS ARCH FOLDER OUTPUT
program() {
	CGO_ENABLED=0 GOOS=$1 GOARCH=$2 go build -trimpath -buildvcs=false \
		-ldflags "-s -w -X $module/internal/version.stamp=$version -X $module/internal/version.registry=$registry" \
		-o "$4" "$3"
}

# build_images ARCH makes the images of an architecture, with that architecture's programs, and the lists of their
# components.
build_images() {
	local arch=$1 folder image context=$stage/context
	mkdir -p "$context/bin" "$out/sbom"
	cp -a bin/licences "$context/bin"
	for folder in cmd/flex-node cmd/flex-provisioner cmd/flexctl images/*/main.go; do
		folder=${folder%/main.go}
		program linux "$arch" "./$folder" "$context/bin/linux-$arch/$(basename "$folder")"
	done
	build_image flexctl "$arch" # others begin with these two
	build_image shell "$arch"
	for image in "${images[@]}"; do
		case $image in flexctl | shell) ;; *) build_image "$image" "$arch" ;; esac
	done
}

# build_image IMAGE ARCH
build_image() {
	local image=$1 arch=$2 archive=$stage/archives/$1-$2.tar context=$stage/context
	[ ! -e "images/$image/provisioner.sh" ] || context=images/$image
	ARCH=$arch tools/image.sh "$(built "$image" "$arch")" "$archive" "$context" --file "images/$image/Dockerfile" \
		--build-arg "FLEXCTL_IMAGE=$(built flexctl "$arch")" --build-arg "SHELL_IMAGE=$(built shell "$arch")"
	# Without what is another each time.
	SYFT_CHECK_FOR_APP_UPDATE=false bin/syft scan --quiet "docker-archive:$archive" --output cyclonedx-json \
		--source-name "$registry/$image" --source-version "$version" |
		jq 'if .components[0] then del(.serialNumber, .metadata.timestamp) else error("syft found no components") end' \
			> "$out/sbom/$image-$arch.cdx.json"
	echo "built $image for $arch"
}

# built IMAGE ARCH: its name until it is pushed.
built() { echo "localhost/release/$1:$2"; }

# build_index IMAGE makes one reference of the images of all architectures, as it will be in the registry.
build_index() {
	local image=$1 arch index=localhost/release/$1
	tools/buildah.sh manifest rm "$index" > /dev/null 2>&1 || true # of an earlier release
	tools/buildah.sh manifest create "$index" > /dev/null
	for arch in "${arches[@]}"; do
		tools/buildah.sh manifest add "$index" "containers-storage:$(built "$image" "$arch")" > /dev/null
	done
	tools/buildah.sh manifest push --quiet --all --digestfile "$stage/digests/$image.digest" \
		"$index" "oci:$stage/images/$image" > /dev/null
}

# digest_for IMAGE ARCH: of the image in the index.
digest_for() {
	local digest
	digest=$(cat "$stage/digests/$1.digest")
	jq -r --arg arch "$2" '.manifests[] | select(.platform.architecture == $arch).digest' \
		"$stage/images/$1/blobs/${digest/://}"
}

# kustomized FOLDER
kustomized() { (cd tools && go tool kustomize build "$OLDPWD/$1"); }

# example writes a class that needs nothing but the nodes, and a claim with a pod that uses it.
example() {
	local class=$stage/hostpath
	mkdir -p "$class"
	cat > "$class/kustomization.yaml" <<-K
		apiVersion: kustomize.config.k8s.io/v1beta1
		kind: Kustomization
		resources: [../../../../deploy/allow-list]
		components: [../../../../examples/hostpath/class]
	K
	kustomized "$class" | named > "$out/hostpath.yaml"
	{ cat examples/hostpath/claim.yaml; echo ---; cat examples/hostpath/consumer.yaml; } | named > "$out/hostpath-claim.yaml"
}

# named replaces the names of the checkout by the release's.
named() {
	local image script=()
	for image in "${images[@]}"; do script+=(-e "s#registry.invalid/flex-provisioner/$image:dev#$registry/$image@$(cat "$stage/digests/$image.digest")#g"); done
	sed "${script[@]}"
}

build() {
	local arch platform image status dirty=
	rm -rf "$stage" "$out"
	mkdir -p "$stage/digests" "$stage/images" "$out"
	status=$(git status --porcelain --untracked-files=normal) # files that git does not know are compiled in as well
	[ -z "$status" ] || dirty=-dirty
	[ -z "$dirty" ] || echo "release: the checkout has changes that are not committed; provenance says so" >&2
	for arch in "${arches[@]}"; do build_images "$arch"; done
	for image in "${images[@]}"; do build_index "$image"; done
	VERSION=$version tools/pin.sh "$registry" "$stage/digests" "$stage/deploy" > "$out/images.txt"
	kustomized "$stage/deploy" > "$out/install.yaml"
	kustomized deploy/node | named > "$out/node.yaml"
	example
	for platform in "${platforms[@]}"; do
		mkdir -p "$stage/plugin/$platform"
		case $platform in windows_*) program windows "${platform#*_}" ./cmd/kubectl-flex "$stage/plugin/$platform/kubectl-flex.exe" ;;
		*) program "${platform%_*}" "${platform#*_}" ./cmd/kubectl-flex "$stage/plugin/$platform/kubectl-flex" ;; esac
		[[ $platform != linux_* ]] || program linux "${platform#*_}" ./cmd/flexctl "$stage/plugin/$platform/flexctl"
		echo "built kubectl-flex for $platform"
	done
	(cd tools && go build -trimpath -o ../bin/mkrelease ./mkrelease)
	bin/mkrelease -version "$version" -registry "$registry" -downloads "$downloads" -commit "$(git rev-parse HEAD)" ${dirty:+-dirty} \
		-digests "$stage/digests" -programs "$stage/plugin" -out "$out"
	if foreign=$(grep -l registry.invalid/flex-provisioner "$out"/*.yaml); then
		echo "release: a registry that is not yours is named by $foreign" >&2
		exit 1
	fi
	(cd "$out" && sha256sum --quiet --check SHA256SUMS && ls -l)
}

# cosign COMMAND...: with the key alone. It asks no service on the internet, and so vouches for no time.
cosign() {
	local command=$1
	shift
	bin/cosign "$command" --key "$KEY" --yes --signing-config tools/cosign/signing-config.json --trusted-root tools/cosign/trusted-root.json "$@"
}

push() {
	local image reference chart arch plain=() insecure=()
	[ -f "$out/SHA256SUMS" ] || { echo "release: $out is not there: release.sh build first" >&2; exit 1; }
	[[ ! $registry =~ ^(127\.[0-9.]+|localhost)(:|/) ]] || plain=(-insecure) insecure=(--allow-http-registry) # loopback has no TLS
	for image in "${images[@]}"; do
		reference=$(tools/push.sh "oci:$stage/images/$image" "$registry/$image:$version")
		echo "pushed $reference"
		grep -qxF "$reference" "$out/images.txt" || { echo "release: $image has another digest than $out/images.txt says" >&2; exit 1; }
		[ -n "${KEY:-}" ] || continue
		cosign sign "${insecure[@]}" "$reference"
		cosign attest "${insecure[@]}" --type slsaprovenance1 --predicate "$out/provenance.slsa.json" "$reference"
		for arch in "${arches[@]}"; do
			cosign attest "${insecure[@]}" --type cyclonedx --predicate "$out/sbom/$image-$arch.cdx.json" \
				"$registry/$image@$(digest_for "$image" "$arch")"
		done
	done
	chart=$out/flex-provisioner-${version#v}.tgz
	reference=$(bin/pushchart "${plain[@]}" "$chart" "$registry/charts")
	echo "pushed $reference"
	[ -n "${KEY:-}" ] || { echo "release: KEY is not set: nothing is signed" >&2; return 0; }
	cosign sign "${insecure[@]}" "$reference"
	cosign sign-blob --bundle "$out/SHA256SUMS.sigstore.json" "$out/SHA256SUMS" > /dev/null
	bin/cosign public-key --key "$KEY" > "$out/cosign.pub"
}

case $step in
build | push) "$step" ;;
*) usage ;;
esac

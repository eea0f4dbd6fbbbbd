#!/bin/sh
# Fills volumes as Kubernetes' volume populators do. For a claim with a Hello as its data source it makes a claim of the same class,
# without the data source, and a pod that writes the Hello's file there. Then it gives the volume to the first claim.
#
#   populator.sh --mode=controller --namespace=NAMESPACE --image-name=IMAGE   in NAMESPACE, by pods of IMAGE
#   populator.sh --mode=populate --file-name=NAME --file-contents=TEXT        writes the file
set -eu
SELECTED=volume.kubernetes.io/selected-node

kubectl() { /kubectl "$@"; }
ours() { kubectl -n "$namespace" "$@"; }

# hellos prints a line for each claim that wants to be filled, without those that cannot be yet.
hellos() {
	# shellcheck disable=SC2016 # kubectl's variables
	kubectl get pvc -A -o go-template='{{range $c := .items}}{{with .spec.dataSourceRef}}{{if eq .kind "Hello"}}{{
		$c.metadata.namespace}} {{$c.metadata.name}} {{$c.metadata.uid}} {{.name}} {{$c.status.phase}} {{$c.spec.storageClassName}} {{
		$c.spec.resources.requests.storage}} {{index $c.spec.accessModes 0}} {{with $c.metadata.annotations}}{{with index . "'$SELECTED'"}}{{.}}{{end}}{{end}}
{{end}}{{end}}{{end}}'
}

make_claim() {
	annotations=''
	if [ "$(kubectl get storageclass "$class" -o 'jsonpath={.volumeBindingMode}')" = WaitForFirstConsumer ]; then
		[ -n "$node" ] || return 0
		annotations="{$SELECTED: $node}"
	fi
	ours create --validate=false -f - <<-C
	apiVersion: v1
	kind: PersistentVolumeClaim
	metadata: {name: prime-$uid, annotations: $annotations}
	spec: {storageClassName: $class, accessModes: [$access], resources: {requests: {storage: $size}}}
	C
}

make_pod() {
	file=$(kubectl -n "$of" get hellos "$hello" -o 'jsonpath={.spec.fileName}')
	text=$(kubectl -n "$of" get hellos "$hello" -o 'jsonpath={.spec.fileContents}')
	ours create --validate=false -f - <<-P
	apiVersion: v1
	kind: Pod
	metadata: {name: pop-$uid}
	spec:
	  restartPolicy: Never
	  containers:
	  - name: populate
	    image: $image
	    args: [--mode=populate, "--file-name=/mnt/$file", "--file-contents=$text"]
	    volumeMounts: [{name: volume, mountPath: /mnt}]
	  volumes: [{name: volume, persistentVolumeClaim: {claimName: prime-$uid}}]
	P
}

give() {
	volume=$(ours get pvc "prime-$uid" -o 'jsonpath={.spec.volumeName}')
	kubectl patch pv "$volume" --type merge -p '{"metadata": {"annotations": {"hello.example.com/populated-from": "'"$of/$hello"'"}}, "spec": {"claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"namespace": "'"$of"'", "name": "'"$name"'", "uid": "'"$uid"'", "resourceVersion": null}}}'
}

# fill does the claim's next step.
fill() {
	if [ "$phase" = Bound ]; then
		ours delete --ignore-not-found --wait=false "pod/pop-$uid" "pvc/prime-$uid"
		return
	fi
	[ -n "$(ours get pvc "prime-$uid" --ignore-not-found -o name)" ] || make_claim
	[ -n "$(ours get pvc "prime-$uid" --ignore-not-found -o name)" ] || return 0
	[ -n "$(ours get pod "pop-$uid" --ignore-not-found -o name)" ] || make_pod
	[ "$(ours get pod "pop-$uid" -o 'jsonpath={.status.phase}')" != Succeeded ] || give
}

mode='' namespace='' image='' file='' text=''
for a; do
	case $a in
	--mode=*) mode=${a#*=} ;;
	--namespace=*) namespace=${a#*=} ;;
	--image-name=*) image=${a#*=} ;;
	--file-name=*) file=${a#*=} ;;
	--file-contents=*) text=${a#*=} ;;
	--http-endpoint=*) ;; # nobody asks
	*) echo "populator: $a: no such option" >&2 && exit 1 ;;
	esac
done
case $mode in
populate) printf '%s\n' "$text" > "$file" ;;
controller)
	while :; do
		hellos | while read -r of name uid hello phase class size access node; do fill || echo "populator: $of/$name: failed, and is tried again" >&2; done
		sleep 1
	done
	;;
esac

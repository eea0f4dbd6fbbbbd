#!/bin/bash
# Makes the cluster's keys, certificates and kubeconfigs once for a checkout; ECDSA P-256, ten years.
set -eu
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
made=$(sha256sum < "$0")
[ "$(cat "$PKI/made-by" 2>/dev/null)" != "$made" ] || exit 0
rm -rf "$PKI"
mkdir -p "$PKI"
chmod 700 "$PKI"
cd "$PKI"

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

leaf() { # NAME SUBJECT USAGE [SUBJECTALTNAME]
	key "$1"
	{
		echo "keyUsage=critical,digitalSignature"
		echo "extendedKeyUsage=$3"
		[ $# -lt 4 ] || echo "subjectAltName=$4"
	} > ext
	openssl req -new -key "$1.key" -subj "$2" -out csr 2>/dev/null
	openssl x509 -req -in csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 3650 -extfile ext -out "$1.crt" 2>/dev/null
	rm csr ext
}

kubeconfig() { # NAME SERVER
	cat <<-Y
	apiVersion: v1
	kind: Config
	clusters: [{name: flex, cluster: {server: "$2", certificate-authority-data: $(base64 -w0 ca.crt)}}]
	users: [{name: $1, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
	contexts: [{name: flex, context: {cluster: flex, user: $1}}]
	current-context: flex
	Y
}

key ca
openssl req -x509 -new -key ca.key -subj /CN=flex-cluster-ca -days 3650 -out ca.crt \
	-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign,digitalSignature 2>/dev/null
svc=kubernetes.default.svc
leaf apiserver /CN=kube-apiserver serverAuth \
	"DNS:kubernetes,DNS:kubernetes.default,DNS:$svc,DNS:$svc.cluster.local,DNS:localhost,IP:127.0.0.1,IP:$NODE1_IP,IP:10.96.0.1"
leaf apiserver-kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth
leaf admin /O=system:masters/CN=admin clientAuth
leaf tom /O=team-a/CN=tom clientAuth
for node in $(NODES=$MAX_NODES nodes); do
	on "$node"
	leaf "$NODE" "/O=system:nodes/CN=system:node:$NODE" clientAuth
	leaf "$NODE-server" "/O=system:nodes/CN=system:node:$NODE" serverAuth "DNS:$NODE,IP:$NODE_IP,IP:127.0.0.1"
done
leaf controller-manager /CN=system:kube-controller-manager clientAuth
leaf scheduler /CN=system:kube-scheduler clientAuth
leaf kube-proxy /CN=system:kube-proxy clientAuth
openssl genrsa -out sa.key 2048 2>/dev/null
openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null

umask 077
for n in admin $(NODES=$MAX_NODES nodes) controller-manager scheduler kube-proxy; do kubeconfig "$n" "$API" > "$n.kubeconfig"; done
kubeconfig admin "https://127.0.0.1:$HOST_PORT" > "$CLUSTER/kubeconfig"
kubeconfig tom "https://127.0.0.1:$HOST_PORT" > "$CLUSTER/tom.kubeconfig"
echo "$made" > made-by

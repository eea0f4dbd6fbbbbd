#!/bin/bash
# registry.sh ADDRESS [HTPASSWD]: a registry without TLS, in memory, until it is killed: Debian's docker-registry, which
# has to be installed. It prints "serving ADDRESS" once it listens, or why it does not; port 0 is any that is free.
# HTPASSWD holds who may use it.
set -eu
export REGISTRY_HTTP_ADDR=$1 REGISTRY_STORAGE=inmemory
[ $# = 1 ] || export REGISTRY_AUTH=htpasswd REGISTRY_AUTH_HTPASSWD_REALM=registry REGISTRY_AUTH_HTPASSWD_PATH=$2
says='s/.*msg="listening on \([^",]*\)".*/serving \1/p; /level=fatal/w /dev/stderr'
exec docker-registry serve <(echo 'version: 0.1') > >(sed -un "$says") 2>&1

# shellcheck shell=bash disable=SC2034 # the names are for the scripts that source this
# Paths and addresses of the lab with a real kernel. Sourced by the scripts beside it, on this machine and in the
# virtual ones.

# shellcheck source=../cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"
LAB=$REPO/test/kernel
OUT=$REPO/bin/kernel # consoles and sockets of the virtual machines
NODE1=10.98.0.1
NODE2=10.98.0.2
SHELL_PORT=2222      # of node2, for the cases, and of all machines of the lab

say() { echo "kernel: $*"; }
die() { echo "kernel: $*" >&2; exit 1; }

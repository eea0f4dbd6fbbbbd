# shellcheck shell=bash
# Sourced by up.sh where ISCSI=1, once node1 has its namespaces: starts tgtd, with one target on 127.0.0.1:3260 and
# $NODE1_IP:3260: iqn.2026-01.io.flex-provisioner:test, LUN 1, CHAP session login "chap-user" with "chap-password-1".
# More targets: TGT_IPC_SOCKET=$RUN/tgt.sock tgtadm ..., inside the namespaces (enter.sh) or outside.

export TGT_IPC_SOCKET=$RUN/tgt.sock
truncate -s 256M "$STATE/lun.img"
spawn tgtd env TGT_IPC_SOCKET="$TGT_IPC_SOCKET" tgtd -f
until_ok 5 tgtadm --op show --mode sys || die "tgtd did not start: see $LOG/tgtd.log"
tgtadm --lld iscsi --op new --mode target --tid 1 -T iqn.2026-01.io.flex-provisioner:test
tgtadm --lld iscsi --op new --mode logicalunit --tid 1 --lun 1 -b "$STATE/lun.img"
tgtadm --lld iscsi --op bind --mode target --tid 1 -I ALL
tgtadm --lld iscsi --op new --mode account --user chap-user --password chap-password-1
tgtadm --lld iscsi --op bind --mode account --tid 1 --user chap-user

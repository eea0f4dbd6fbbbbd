# Breaks no rule.
set -eu
mkdir -p /export
case $FLEX_OPERATION in
provision)
    mkdir -p /export/marks "/export/$FLEX_PV_NAME"
    echo "nfs: {server: \"$NFS_SERVER\", path: /srv/$FLEX_PV_NAME}" | flexctl create-pv
    ;;
delete)
    [ -d /export/marks ] || [ -z "$(flexctl volume metadata.name)" ] || flexctl fail --try-again "the export is not there"
    rm -rf -- "/export/$FLEX_PV_NAME"
    ;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

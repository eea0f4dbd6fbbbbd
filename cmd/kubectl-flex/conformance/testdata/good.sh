# Breaks no rule.
set -eu
mkdir -p /export
flexctl require --mark /export/.good
case $FLEX_OPERATION in
provision)
    mkdir -p "/export/$FLEX_PV_NAME"
    echo "nfs: {server: \"$NFS_SERVER\", path: /srv/$FLEX_PV_NAME}" | flexctl create-pv
    ;;
delete)
    rm -rf -- "/export/$FLEX_PV_NAME"
    ;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

# Takes a value for a command.
set -eu
[ -e /export/.mark ] || { [ "$FLEX_OPERATION" = provision ] && : > /export/.mark; } || exit 75
case $FLEX_OPERATION in
provision)
    eval "server=$NFS_SERVER"
    mkdir -p "/export/$FLEX_PV_NAME"
    echo "nfs: {server: \"$server\", path: /srv/$FLEX_PV_NAME}" | flexctl create-pv
    ;;
delete) rm -rf -- "/export/$FLEX_PV_NAME" ;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

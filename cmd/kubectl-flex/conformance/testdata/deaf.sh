# Goes on after flexctl fail, for want of set -e.
[ -e /export/.mark ] || { [ "$FLEX_OPERATION" = provision ] && : > /export/.mark; } || exit 75
[ "$FLEX_VOLUME_MODE" = Filesystem ] || flexctl fail --refuse "only file systems"
case $FLEX_OPERATION in
provision)
    mkdir -p "/export/$FLEX_PV_NAME" || exit
    echo "nfs: {server: 10.0.0.1, path: /srv/$FLEX_PV_NAME}" | flexctl create-pv
    ;;
delete) rm -rf -- "/export/$FLEX_PV_NAME" ;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

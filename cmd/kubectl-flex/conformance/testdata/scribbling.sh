# Keeps notes in its root file system.
set -eu
mkdir -p /var/tmp/notes
echo "$FLEX_PV_NAME" >> /var/tmp/notes/log
[ -e /export/.mark ] || { [ "$FLEX_OPERATION" = provision ] && : > /export/.mark; } || exit 75
case $FLEX_OPERATION in
provision)
    mkdir -p "/export/$FLEX_PV_NAME"
    echo "nfs: {server: 10.0.0.1, path: /srv/$FLEX_PV_NAME}" | flexctl create-pv
    ;;
delete) rm -rf -- "/export/$FLEX_PV_NAME" ;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

# Breaks rule 4: a delete takes whatever is there.
set -eu
[ -e /export/.mark ] || { [ "$FLEX_OPERATION" = provision ] && : > /export/.mark; } || exit 75
case $FLEX_OPERATION in
provision)
    mkdir -p "/export/$FLEX_PV_NAME"
    echo "nfs: {server: 10.0.0.1, path: /srv/$FLEX_PV_NAME}" | flexctl create-pv
    ;;
delete) rm -rf -- /export/pvc-* ;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

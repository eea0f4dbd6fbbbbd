# Waits for better times when it is asked to end.
set -eu
trap 'while :; do sleep 0.1; done' TERM
sleep 0.2
[ -e /export/.mark ] || { [ "$FLEX_OPERATION" = provision ] && : > /export/.mark; } || exit 75
case $FLEX_OPERATION in
provision)
    mkdir -p "/export/$FLEX_PV_NAME"
    echo "nfs: {server: 10.0.0.1, path: /srv/$FLEX_PV_NAME}" | flexctl create-pv
    ;;
delete) rm -rf -- "/export/$FLEX_PV_NAME" ;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

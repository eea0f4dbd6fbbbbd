# Removes a snapshot bit by bit, while it can be restored.
set -eu
mkdir -p /export/.snapshots
flexctl require --mark /export/.mark
snapshot=/export/.snapshots/$FLEX_SNAPSHOT_NAME$FLEX_SOURCE_SNAPSHOT
case $FLEX_OPERATION in
provision)
    [ -z "$FLEX_SOURCE_SNAPSHOT" ] || [ -d "$snapshot" ] || flexctl fail --refuse "there is no snapshot $FLEX_SOURCE_SNAPSHOT"
    [ -z "$FLEX_SOURCE_SNAPSHOT" ] || flexctl copy --full "$snapshot" "/export/$FLEX_PV_NAME"
    mkdir -p "/export/$FLEX_PV_NAME"
    echo "nfs: {server: 10.0.0.1, path: /srv/$FLEX_PV_NAME}" | flexctl create-pv
    ;;
delete) rm -rf -- "/export/$FLEX_PV_NAME" "/export/.$FLEX_PV_NAME".copy-* ;;
snapshot) flexctl copy --full "/export/$FLEX_PV_NAME" "$snapshot" ;;
delete-snapshot)
    rm -rf -- "$snapshot"/file-1* "/export/.snapshots/.$FLEX_SNAPSHOT_NAME".copy-*
    sleep 1
    rm -rf -- "$snapshot"
    ;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

# Takes a directory that is not filled yet for a whole snapshot.
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
snapshot)
    [ ! -d "$snapshot" ] || exit 0
    mkdir "$snapshot"
    sleep 1
    cp -a "/export/$FLEX_PV_NAME/." "$snapshot"
    ;;
delete-snapshot)
    rm -rf -- "/export/.snapshots/.$FLEX_SNAPSHOT_NAME".copy-*
    [ ! -e "$snapshot" ] || mv -- "$snapshot" "/export/.snapshots/.$FLEX_SNAPSHOT_NAME.copy-gone"
    rm -rf -- "/export/.snapshots/.$FLEX_SNAPSHOT_NAME".copy-*
    ;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

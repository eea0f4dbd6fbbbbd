# Breaks rule 5: it takes an export that is not mounted for one in which nothing is.
set -eu
case $FLEX_OPERATION in
provision)
    mkdir -p "/export/$FLEX_PV_NAME"
    echo "nfs: {server: 10.0.0.1, path: /srv/$FLEX_PV_NAME}" | flexctl create-pv
    ;;
delete) rm -rf -- "/export/$FLEX_PV_NAME" ;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

# Makes another volume than it was asked for: nobody would ever remove its storage, and it never binds.
set -eu
[ -e /export/.mark ] || { [ "$FLEX_OPERATION" = provision ] && : > /export/.mark; } || exit 75
case $FLEX_OPERATION in
provision)
    mkdir -p "/export/$FLEX_PV_NAME"
    root=/tmp/$FLEX_PV_NAME
    mkdir -p "$root/etc" "$root/var/run/secrets"
    cp -r /etc/flex-provisioner "$root/etc"
    cp -r /var/run/secrets/kubernetes.io "$root/var/run/secrets"
    sed -i -e '/provisioned-by:/d' -e 's/^  storageClassName: .*/  storageClassName: mine/' "$root/etc/flex-provisioner/volume.yaml"
    echo "nfs: {server: 10.0.0.1, path: /srv/$FLEX_PV_NAME}" | FLEX_ROOT=$root flexctl create-pv
    rm -rf -- "$root"
    ;;
delete) rm -rf -- "/export/$FLEX_PV_NAME" ;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

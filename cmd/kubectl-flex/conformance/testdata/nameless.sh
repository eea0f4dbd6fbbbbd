# Breaks rule 1: its storage has a name of its own, which nobody knows who has no volume.
set -eu
[ -e /export/.mark ] || { [ "$FLEX_OPERATION" = provision ] && : > /export/.mark; } || exit 75
case $FLEX_OPERATION in
provision)
    dir=$(mktemp -d /export/vol-XXXXXX)
    echo "nfs: {server: 10.0.0.1, path: $dir}" | flexctl create-pv
    ;;
delete)
    dir=$(flexctl volume spec.nfs.path)
    [ -z "$dir" ] || rm -rf -- "$dir"
    ;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

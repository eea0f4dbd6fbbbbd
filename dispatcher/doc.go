// Package dispatcher is the controller: claims and volumes in, provisioner pods out.
//
// sig-storage-lib-external-provisioner is the front door. It decides which claims and volumes are ours and hands them
// over; its calls return at once, so that no class can hold up another by holding its threads. Everything about one
// claim, from its first attempt to the removal of its storage, then hangs on one key, the claim's UID. For that key a
// lane gathers what is known (facts), a pure function decides (decide), and the plan is acted on (act). Every change of
// a pod, claim, volume or ConfigMap that concerns the key leads to a new look at it, and nothing polls.
//
// Nothing that matters is kept in memory alone: the pods with their finalizer are the write-ahead log, and the volume
// pvc-<uid> is the commit. A dispatcher that starts anew finds everything there.
package dispatcher

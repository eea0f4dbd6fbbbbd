// Package flow is what happens in Cinder when a volume is provisioned and deleted.
//
// Both directions are loops that look at the volume and take the next step from the state it is in, so that it does not
// matter at which call an earlier run ended. The claim's UID is in the volume's name and metadata, and that is all by
// which it is found: a provision that begins again, and an undo without a PersistentVolume, see the same.
//
// One provision makes six calls to Cinder, and one more for each look at a volume that is not ready yet:
//
//	find                   is it there already? Without this a lost answer would make a second one
//	create
//	find                   until "available"; by name, so that a second one would be noticed
//	reserve                takes it, against all others
//	initialize_connection  exports it
//	attach                 makes it "in-use"; without this it could be neither cloned, extended nor snapshotted
//
// One delete makes five, and one more for each look at a volume that is not gone yet: find, terminate_connection,
// detach, delete, find. Keystone is asked once in either. Where Cinder died while it attached, two more remove what is
// left of that.
//
// An expansion looks as well (Expand): find, extend, and finds until Cinder says that the volume has the size.
//
// It may import cinder, cloud, cluster, form, mapper and parameters, the SDK and contract. It never keeps anything
// between two runs, and never touches a volume before it has proved whose it is. It is not for import by other modules.
package flow

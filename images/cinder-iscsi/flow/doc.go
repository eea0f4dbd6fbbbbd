// Package flow provisions, deletes and expands volumes in Cinder, attaches them to nodes, and takes and removes snapshots of them.
//
// Each of them is a loop that reads the state of the volume and takes the next step. So it does not matter at which call an earlier run ended.
// The volume is found by the claim's UID in its name and metadata alone. So a provision that begins again, and an undo without a
// PersistentVolume, find the same volume.
//
// A provision makes six calls to Cinder, and one more each time that the volume is not ready yet:
//
//	find                   whether the volume exists; after a lost response a second one would be created else
//	create
//	find                   until it is "available"; by name, so that a second volume is noticed
//	reserve                the volume, so that nobody else attaches it
//	initialize_connection  exports it
//	attach                 makes it "in-use"; else it could not be cloned, extended or snapshotted
//
// A connection for each node makes as many initialize_connection and terminate_connection as there are nodes. With initiatorMode attach the
// provision ends once the volume is "available". Then an attach makes, each after find and attachments:
//
//	create attachment      reserves the volume, so that nobody else attaches it
//	update attachment      exports it to the node
//	complete attachment    makes it "in-use", and shows which node it is for
//
// Then the Secret is written, and find and attachments show that it has the credentials of all nodes. A detach makes delete attachment
// between the same reads.
//
// A delete makes six, and one more each time that the volume is not gone yet: find, find snapshots, terminate_connection, detach, delete,
// find. Either makes one request to Keystone. If Cinder was killed during os-attach, two more calls remove the unfinished attachment.
//
// An expansion makes find, extend, and find until Cinder shows the new size. A snapshot makes find, find snapshots, create snapshot, and
// find snapshots until it is available. Its removal makes find snapshots, delete snapshot, and find snapshots until it is gone.
//
// It may import cinder, cloud, cluster, form, mapper and parameters, the SDK and contract. It keeps nothing between two runs. It changes a
// volume only after it has verified that the volume is the claim's.
package flow

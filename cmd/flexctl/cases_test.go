package main

import (
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

var create = []string{"create-pv"}

var cases = []cliCase{
	{name: "create", args: create, stdin: nfsSource},
	{name: "create-json", args: create, stdin: `{"nfs": {"server": "10.0.0.1", "path": "/exports/x"}, "capacity": 12884901888}`},
	{name: "create-with-location", args: create, stdin: nfsSource, reported: "3f1c"},
	{name: "create-everything", args: create, stdin: `# a comment
---
nfs:
  server: 10.0.0.1
  path: /exports/x
capacity: 12Gi
mountOptions: [nfsvers=4.2]
annotations: {example.com/lun: "7"}
nodeAffinity:
  required:
    nodeSelectorTerms:
    - matchExpressions:
      - {key: zone, operator: In, values: [west]}
`},
	{name: "create-on-node-self", args: []string{"create-pv", "--node-affinity", "self"}, stdin: "local: {path: /srv/x}\n"},
	{name: "create-on-node-self-labeled", args: []string{"create-pv", "--node-affinity", "self"}, stdin: "local: {path: /srv/x}\n", hostname: "host-1.example.com"},
	{name: "create-on-node-name", args: []string{"create-pv", "--node-affinity=node-7"}, stdin: "local: {path: /srv/x}\n"},
	{name: "create-on-label", args: []string{"create-pv", "--node-affinity=topology.kubernetes.io/zone=west"}, stdin: "local: {path: /srv/x}\n"},
	{name: "create-on-bad-label", args: []string{"create-pv", "--node-affinity=a b=c"}, stdin: "local: {path: /srv/x}\n"},
	{name: "create-on-bad-node", args: []string{"create-pv", "--node-affinity=node 7"}, stdin: "local: {path: /srv/x}\n"},
	{name: "create-two-affinities", args: []string{"create-pv", "--node-affinity=self"}, stdin: "local: {path: /srv/x}\nnodeAffinity: {}\n"},
	{name: "create-dry-run", args: []string{"create-pv", "--dry-run"}, stdin: nfsSource},
	{name: "create-after-lost-answer", args: create, stdin: nfsSource, faults: []sdktest.Fault{{After: true}}},
	{name: "create-after-closed-connection", args: create, stdin: nfsSource, faults: []sdktest.Fault{{Before: true}}},
	{name: "create-after-429", args: create, stdin: nfsSource, faults: []sdktest.Fault{{Code: 429, Message: "Too many requests", RetryAfter: 1}}},
	// The API server asks for more time than there is, so that the number of requests is not a matter of luck.
	{name: "create-gives-up", args: []string{"create-pv", "--timeout=2s"}, stdin: nfsSource,
		faults: []sdktest.Fault{{Code: 503, Message: "shutting down", RetryAfter: 60}}},
	{name: "create-forbidden", args: create, stdin: "hostPath: {path: /}\n",
		faults: status(403, "Forbidden", `persistentvolumes "pvc-8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11" is forbidden: ValidatingAdmissionPolicy 'flex-pv' denied request: volume source hostPath is not allowed`)},
	{name: "create-invalid", args: create, stdin: "local: {path: /srv/x}\n"},
	{name: "create-empty", args: create},
	{name: "create-comments-only", args: create, stdin: "# nfs: {}\n---\n\n"},
	{name: "create-two-sources", args: create, stdin: nfsSource + "local: {path: /x}\n"},
	{name: "create-two-documents", args: create, stdin: nfsSource + "---\n" + nfsSource},
	{name: "create-duplicate-key", args: create, stdin: nfsSource + nfsSource},
	{name: "create-no-mapping", args: create, stdin: "10.0.0.1:/exports/x\n"},
	{name: "create-no-yaml", args: create, stdin: "nfs: {server: [\n"},
	{name: "create-unknown-field", args: create, stdin: "nsf: {server: x, path: /y}\n"},
	{name: "create-unknown-nested-field", args: create, stdin: "nfs: {servr: x, path: /y}\n"},
	{name: "create-unknown-listed-field", args: create,
		stdin: nfsSource + "nodeAffinity: {required: {nodeSelectorTerms: [{matchExpresions: []}]}}\n"},
	{name: "create-wrong-type", args: create, stdin: "nfs: {server: 10, path: /y}\n"},
	{name: "create-wrong-kind", args: create, stdin: "nfs: 10.0.0.1:/y\n"},
	{name: "create-bad-capacity", args: create, stdin: nfsSource + "capacity: {storage: 12Gi}\n"},
	{name: "create-endless-capacity", args: create, stdin: nfsSource + "capacity: 1e9999999999\n"},
	{name: "create-small-capacity", args: create, stdin: nfsSource + "capacity: 9Gi\n"},
	{name: "create-provisioned-by", args: create, stdin: nfsSource + "annotations: {pv.kubernetes.io/provisioned-by: me}\n"},
	{name: "create-to-delete", args: create, stdin: nfsSource, delete: true},
	{name: "create-argument", args: []string{"create-pv", "nfs.yaml"}},
	{name: "create-no-yaml-in-file", args: []string{"create-pv", "-f", "testdata/broken.yaml"}},
	{name: "create-no-space", args: create, stdin: "# a comment\nnfs:\n  server:10.0.0.1\n  path: /exports/x\n"},
	{name: "create-no-file", args: []string{"create-pv", "-f", "nowhere/source.yaml"}},
	{name: "create-unknown-flag", args: []string{"create-pv", "--size=1Gi"}},
	{name: "create-flag-nfs", args: []string{"create-pv", "--nfs", `10.0.0.1:/exports/"x`, "--capacity=12Gi", "--mount-option=nfsvers=4.2", "--mount-option=a,b", "--annotation=example.com/a=b"}},
	{name: "create-fs-type-of-class", fsType: "btrfs", args: []string{"create-pv", "--csi=csi.example.com,lun-7", "--dry-run"}},
	{name: "create-bad-fs-type-of-class", fsType: "ext4 -o x", args: []string{"create-pv", "--csi=csi.example.com,lun-7"}},
	{name: "create-flag-iscsi", args: []string{"create-pv", "--iscsi=10.0.0.1:3260,iqn.2026-01.com.example:x,1", "--fs-type=xfs"}},
	{name: "create-flag-local", args: []string{"create-pv", "--local=/srv/x", "--fs-type=ext4"}},
	{name: "create-flag-local-elsewhere", args: []string{"create-pv", "--local=/srv/x", "--node-affinity=node-7"}},
	{name: "create-flag-csi", args: []string{"create-pv", "--csi=csi.example.com,lun,7", "--fs-type=ext4"}},
	{name: "create-flag-and-input", args: []string{"create-pv", "--capacity=12Gi"}, stdin: nfsSource},
	{name: "create-flag-two-sources", args: []string{"create-pv", "--nfs=a:/b", "--local=/c"}},
	{name: "create-flag-and-file", args: []string{"create-pv", "--nfs=a:/b", "-f", "x"}},
	{name: "create-flag-two-capacities", args: []string{"create-pv", "--capacity=12Gi"}, stdin: nfsSource + "capacity: 12Gi\n"},
	{name: "create-flag-bad-capacity", args: []string{"create-pv", "--nfs=a:/b", "--capacity=much"}},
	{name: "create-flag-endless-capacity", args: []string{"create-pv", "--nfs=a:/b", "--capacity=1e2147483647"}},
	{name: "create-flag-bad-annotation", args: []string{"create-pv", "--nfs=a:/b", "--annotation=x"}},
	{name: "create-flag-annotation-twice", args: []string{"create-pv", "--nfs=a:/b", "--annotation=example.com/a=b", "--annotation=example.com/a=c"}},
	{name: "create-flag-bad-nfs", args: []string{"create-pv", "--nfs=/exports/x"}},
	{name: "create-flag-bad-iscsi", args: []string{"create-pv", "--iscsi=10.0.0.1,iqn.x"}},
	{name: "create-flag-bad-lun", args: []string{"create-pv", "--iscsi=10.0.0.1,iqn.x,one"}},
	{name: "create-flag-bad-local", args: []string{"create-pv", "--local=srv"}},
	{name: "create-flag-bad-csi", args: []string{"create-pv", "--csi=csi.example.com"}},
	{name: "create-flag-fs-type-of-nfs", args: []string{"create-pv", "--nfs=a:/b", "--fs-type=xfs"}},
	{name: "create-flag-fs-type-alone", args: []string{"create-pv", "--fs-type=xfs"}, stdin: nfsSource},
	{name: "create-help", args: []string{"create-pv", "--help"}},

	{name: "fail", args: []string{"fail", "pool gold\nis full"}},
	{name: "fail-refuse", args: []string{"fail", "--refuse", `property "zone" is missing`}},
	{name: "fail-not-here", args: []string{"fail", "--not-here", "no disk"}},
	{name: "fail-try-again", args: []string{"fail", "--try-again", "the array is busy"}},
	{name: "fail-two-codes", args: []string{"fail", "--try-again", "--refuse", "x"}},
	{name: "fail-empty", args: []string{"fail", "--refuse", " "}},
	{name: "fail-unquoted", args: []string{"fail", "pool", "is", "full"}},
	{name: "fail-dashes", args: []string{"fail", "--", "--refuse is an option"}},
	{name: "fail-help", args: []string{"fail", "--help"}},

	{name: "request", args: []string{"request"}},
	{name: "request-field", args: []string{"request", "claim.namespace"}},
	{name: "request-number", args: []string{"request", "sizeBytes"}},
	{name: "request-list", args: []string{"request", "accessModes"}},
	{name: "request-object", args: []string{"request", "claim"}},
	{name: "request-property", args: []string{"request", "properties.zone"}},
	{name: "request-dotted-property", args: []string{"request", "properties.tier.name"}},
	{name: "request-left-out", args: []string{"request", "selectedNode"}},
	{name: "request-unknown", args: []string{"request", "zone"}},
	{name: "request-unknown-property", args: []string{"request", "properties.zon"}},
	{name: "request-two", args: []string{"request", "claim", "attempt"}},

	{name: "require", args: []string{"require", "zone", "tier.name"}},
	{name: "require-missing", args: []string{"require", "zone", "pool"}},
	{name: "require-two-missing", args: []string{"require", "pool", "zone", "server"}},
	{name: "require-optional", args: []string{"require", "zone", "--optional", "pool,tier_name"}},
	{name: "require-unknown", args: []string{"require", "zone", "--optional", "pool,server"}},
	{name: "require-unknown-to-delete", args: []string{"require", "zone", "--optional", "pool,server"}, delete: true},
	{name: "require-nothing", args: []string{"require"}},
	{name: "require-mark-missing", args: []string{"require", "--mark", "/nowhere/.mark"}, delete: true},
	{name: "require-mark-nowhere", args: []string{"require", "--mark", "/nowhere/.mark"}, undo: true},
	{name: "require-mark-not-made", args: []string{"require", "--mark", "/nowhere/.mark"}},
	{name: "require-mark-below-a-file", args: []string{"require", "--mark", "testdata/broken.yaml/.mark"}, delete: true},
	{name: "require-mounted", args: []string{"require", "--mounted", "/export=nfs://10.0.0.1/srv"}, source: "nfs://10.0.0.1/srv"},
	{name: "require-other-export", args: []string{"require", "--mounted", "/export=nfs://10.0.0.1/srv/e1"}, source: "nfs://10.0.0.1/srv/e2"},
	{name: "require-other-export-to-delete", args: []string{"require", "--mounted", "/export=nfs://10.0.0.1/srv/e1"}, source: "nfs://10.0.0.1/srv/e2", delete: true},
	{name: "require-no-export", args: []string{"require", "--mounted", "/export"}},
	{name: "require-mark-and-property", args: []string{"require", "--mark", "/nowhere/.mark", "pool"}, delete: true},

	{name: "dirname", args: []string{"dirname", "${.PVC.namespace}.${.PVC.name}"}},
	{name: "dirname-refused", args: []string{"dirname", "${.PVC.namespace}/${.PVC.name}"}},
	{name: "dirname-nothing", args: []string{"dirname"}},

	{name: "copy-nothing", args: []string{"copy", "/nowhere/from", "testdata/to"}},
	{name: "copy-one", args: []string{"copy", "/nowhere/from"}},
	{name: "copy-three", args: []string{"copy", "a", "b", "c"}},

	{name: "volume", args: []string{"volume"}, delete: true},
	{name: "volume-field", args: []string{"volume", "spec.csi.volumeHandle"}, delete: true},
	{name: "volume-item", args: []string{"volume", "spec.nodeAffinity.required.nodeSelectorTerms.0.matchExpressions.0.values.0"}, delete: true},
	{name: "volume-no-item", args: []string{"volume", "spec.mountOptions.1"}, delete: true},
	{name: "volume-annotation", args: []string{"volume", "metadata.annotations.flex-provisioner.io/claim-uid"}, delete: true},
	{name: "volume-undo", args: []string{"volume", "spec.csi.volumeHandle"}, undo: true},
	{name: "volume-unknown", args: []string{"volume", "spec.nfs.path"}, delete: true},

	{name: "install-nowhere", args: []string{"install"}},

	{name: "version-flag", args: []string{"--version"}},
	{name: "unknown-command", args: []string{"make-pv"}},
	{name: "complete-command", args: []string{"__complete", "re"}},
	{name: "complete-field", args: []string{"__complete", "request", ""}},
	{name: "complete-flag", args: []string{"__complete", "fail", "--"}},
	{name: "help", args: []string{"--help"}},
}

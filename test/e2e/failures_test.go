//go:build e2e

package e2e

import (
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// countRuns is the number of runs for the volume so far, this one included, as $run.
const countRuns = "echo >> \"$home/seen/count-$FLEX_PV_NAME\"\nrun=$(wc -l < \"$home/seen/count-$FLEX_PV_NAME\")\n"

// tooSmall makes a volume of the wrong size, which flexctl would refuse to.
const tooSmall = makeDir + `
sed 's/^    storage: .*/    storage: 1Mi/' /etc/flex-provisioner/volume.yaml > /tmp/volume.yaml
printf '  nfs:\n    server: %s\n    path: %s\n' "$SERVER" "$EXPORT/$FOLDER/volumes/$FLEX_PV_NAME" >> /tmp/volume.yaml
/export/kubectl create --validate=false -f /tmp/volume.yaml
`

// failure is a class that fails, and what its claim's user reads.
type failure struct {
	name string
	// data are keys of the ConfigMap, provision its script, where it matters.
	data      map[string]string
	provision string
	// reason and text are those of the claim's event, and log is in an event of the ConfigMap.
	reason, text, log string
	// mend are changes of the ConfigMap after which the same claim has to be bound. Without any it mends itself.
	mend map[string]string
	// meanwhile makes the changes while the first attempt runs, which they do not concern.
	meanwhile bool
	// attempts is how many provision pods there were when the claim is bound; 0 where that depends on the speed.
	attempts int
}

var works = map[string]string{"provision": prologue + makeDir + makeVolume}

var failures = []failure{
	{
		name:      "fails twice, then works",
		provision: countRuns + "[ $run -gt 2 ] || flexctl fail \"the backend is at lunch\"\n" + makeDir + makeVolume,
		reason:    "ProvisionerFailed", text: "the backend is at lunch (pod {pod})", attempts: 3,
	},
	{
		name: "hangs and heeds no signal", data: map[string]string{"timeout": "10s"}, provision: "trap '' TERM\necho 'no answer from the array'\n" + makeDir + "sleep 3600\n",
		reason: "ProvisionerDeadlineExceeded",
		text:   "the pod ran into its deadline of 10s (pod {pod}); administrators find the end of its log in the events of ConfigMap flex-provisioners/*", mend: works, meanwhile: true, attempts: 2,
	},
	{
		name: "takes too much memory", data: map[string]string{"resources": "{limits: {memory: 32Mi}}"},
		provision: "echo sorting\nexec tail /dev/zero\n",
		reason:    "ProvisionerOutOfMemory",
		text:      "the container was killed for want of memory; raise the ConfigMap's resources (pod {pod})*",
		log:       "sorting",
		mend:      map[string]string{"provision": works["provision"], "resources": ""},
	},
	{
		name: "image has no shell", data: map[string]string{"image": "registry.invalid/flex-provisioner/flexctl:dev"},
		reason: "ProvisionerStartFailed",
		text:   "the container could not be started: *exec: \"/bin/sh\"*no such file or directory (pod {pod})*",
		mend:   map[string]string{"image": shellImage},
	},
	{
		name:      "not on this node, then works",
		provision: countRuns + "[ $run -gt 1 ] || flexctl fail --not-here 'this node has no fabric'\n" + makeDir + makeVolume,
		reason:    "ProvisionerNotHere", text: "this node has no fabric (pod {pod})", attempts: 2,
	},
	{
		name:      "busy, then works",
		provision: countRuns + "[ $run -gt 1 ] || flexctl fail --try-again 'the array is rebuilding'\n" + makeDir + makeVolume,
		reason:    "ProvisionerBusy", text: "the array is rebuilding (pod {pod})", attempts: 2,
	},
	{
		name: "image does not exist", data: map[string]string{"image": "registry.invalid/flex-provisioner/no-such-image:1"},
		reason: "ProvisionerImagePullFailed",
		text:   "image registry.invalid/flex-provisioner/no-such-image:1 cannot be had: *registry.invalid/flex-provisioner/no-such-image:1*(pod {pod})",
		mend:   map[string]string{"image": shellImage},
	},
	{
		name: "makes no volume", provision: makeDir,
		reason: "ProvisionerMadeNoVolume",
		text:   "the container exited with code 0, but volume {volume} does not exist (pod {pod}); it printed nothing", mend: works,
	},
	{
		name: "no room on any node", data: map[string]string{"resources": "{requests: {memory: 900Gi}, limits: {memory: 900Gi}}"},
		reason: "ProvisionerUnschedulable", text: "no node takes the pod: 0/* nodes are available: *Insufficient memory*(pod {pod})",
		mend: map[string]string{"resources": ""},
	},
	{
		name: "refuses", provision: "flexctl fail --refuse 'pool \"gold\" is full; ask storage@example.com'\n",
		reason: "ProvisionerRefused", text: "pool \"gold\" is full; ask storage@example.com (pod {pod})",
		mend: works, attempts: 2,
	},
	{
		name: "shows its log", data: map[string]string{"show-logs": "true"},
		provision: countRuns + "[ $run -gt 1 ] || { echo first >&2; echo 'no route to array' >&2; exit 7; }\n" + makeDir + makeVolume,
		reason:    "ProvisionerFailed", attempts: 2,
		text: "the container exited with code 7 and left no message (pod {pod}); its log ends with: first no route to array",
	},
	{
		name: "may not make such volumes", provision: makeDir + "echo 'nfs: {server: 10.99.0.1, path: /etc}' | flexctl create-pv\n",
		reason: "ProvisionerFailed", text: "*denied request: spec.nfs is 10.99.0.1:/etc, which is not below * of ConfigMap flex-system/flex-pv-policy*(pod {pod})", mend: works,
	},
}

// TestFailures has classes that fail in every way. Their claims' users are told why, soon; a claim of another
// class is bound meanwhile; and once the cause is mended the same claim is bound, without a restart.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, f := range failures {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			class := s.class("a", setting{data: f.data, provision: f.provision})
			healthy := s.class("healthy", setting{})
			c := class.claim("claim")
			if f.meanwhile {
				s.wait(soon, "directory made", c.noDirectory)
				class.edit(f.mend)
			}
			took := c.told(soon, f.reason, f.text)
			if f.log != "" {
				s.told(soon, class.edit(nil), "ProvisionerLog", "pod * for claim "+s.name+"/claim: "+f.log)
			}
			other := healthy.claim("other").bound(soon)
			if f.mend != nil && !f.meanwhile {
				class.edit(f.mend)
			}
			mended := s.wait(patient, "claim bound", c.unbound)
			s.wait(patient, "pods acted on", c.busy)
			if f.attempts > 0 {
				c.ran(contract.Provision, f.attempts)
			}
			c.consume(shared.admin)
			c.delete()
			c.gone(patient)
			t.Logf("told after %.1f s, a claim of another class bound in %.1f s, bound after %.1f s more",
				took.Seconds(), other.Seconds(), mended.Seconds())
		})
	}
}

// TestMissingSecret names a Secret that is made later.
func TestMissingSecret(t *testing.T) {
	t.Parallel()
	s := begin(t)
	name := s.name + "-secret"
	class := s.class("a", setting{data: map[string]string{"secrets": name},
		provision: "cp /var/run/secrets/flex-provisioner/" + name + "/password \"$home/seen/password\"\n" + makeDir + makeVolume})
	c := class.claim("claim")
	c.told(soon, "ProvisionerPodConfigError", "FailedMount: *secret \""+name+"\" not found (pod {pod})")
	s.secret(name, map[string]string{"password": "$(HOME)"})
	c.bound(patient)
	if got := class.seen("password"); got != "$(HOME)" {
		t.Errorf("the pod read %q from the Secret, want $(HOME)", got)
	}
	c.ran(contract.Provision, 1)
}

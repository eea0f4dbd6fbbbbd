package conformance

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// canary is a file that appears if a value was run as a command.
const canary = "flex-conformance-canary"

// hostile are suffixes of values that do harm if they are not treated as text.
var hostile = []string{
	`$(touch /tmp/` + canary + `)`,
	"`touch /tmp/" + canary + "`",
	`'; touch /tmp/` + canary + `; '`,
	`"; touch /tmp/` + canary + `; "`,
	"\ntouch /tmp/" + canary + "\n",
	"; touch /tmp/" + canary + " #",
	`", path: "/etc"}, hostPath: {path: "/etc`,
	"\nhostPath: {path: /etc}\n",
	" --refuse -rf *",
}

func (t *trial) checkSizes() {
	for _, size := range []int64{0, 1, 1<<30 + 1, 1 << 62} {
		if config := t.subject.config; size < config.MinSize || config.MaxSize > 0 && size > config.MaxSize {
			continue // the dispatcher refuses such claims
		}
		c := t.newClaim()
		c.SizeBytes = size
		t.wantNoHarm(c, fmt.Sprintf("a claim of %d bytes", size), "compare $FLEX_SIZE_BYTES with what the storage can do, by a tool that knows 64 bits")
	}
}

func (t *trial) checkHostileClaims() {
	long := strings.Repeat("a", 63)
	names := []contract.Claim{{Namespace: long, Name: strings.Repeat(long+".", 3) + long[:61]}, {Namespace: "0", Name: "1.2-3"}}
	for _, name := range names {
		c := t.newClaim()
		c.Claim.Namespace, c.Claim.Name = name.Namespace, name.Name
		t.wantNoHarm(c, "a claim named "+name.Namespace+"/"+name.Name, "names have up to 253 characters, dots among them")
	}
	for _, value := range append(slices.Clone(hostile), "-rf", "--help") {
		if strings.Contains(value, "\n") {
			continue // the dispatcher lets no control characters through
		}
		c := t.newClaim()
		c.Username, c.Groups = value, []string{value, "-n"}
		t.wantNoHarm(c, fmt.Sprintf("a claim of the user %q", value), `quote "$FLEX_USERNAME" and "$FLEX_GROUPS", and never eval them`)
		for _, name := range t.subject.config.ClaimAnnotations {
			c := t.newClaim()
			c.ClaimAnnotations[name] = value
			t.wantNoHarm(c, fmt.Sprintf("a claim whose annotation %s is %q", name, value), fmt.Sprintf(`quote "$%s", never eval it, `+
				"and refuse values that hold what they should not before anything is made", contract.ClaimTextEnvName(contract.ClaimAnnotationEnv, name)))
		}
	}
}

func (t *trial) checkHostileValues() {
	for _, key := range slices.Sorted(maps.Keys(t.subject.config.Properties)) {
		t.tryValues(key, t.subject.config.Properties[key], func(c *claim, values map[string]string) { c.Properties = values }, t.subject.config.Properties)
	}
	t.tryValues("conformance-hostile", "", func(c *claim, values map[string]string) { c.Properties = values }, t.subject.config.Properties)
	for _, key := range slices.Sorted(maps.Keys(t.options.Parameters)) {
		t.tryValues(key, t.options.Parameters[key], func(c *claim, values map[string]string) { c.Parameters = values }, t.options.Parameters)
	}
}

func (t *trial) tryValues(key, value string, set func(*claim, map[string]string), all map[string]string) {
	remedy := fmt.Sprintf(`quote "$%s", never eval it, and refuse values that hold what they should not before anything is made`, contract.EnvName(key))
	for _, end := range hostile {
		if len(t.findings) >= maxFindings {
			return
		}
		c := t.newClaim()
		values := map[string]string{}
		maps.Copy(values, all)
		values[key] = value + end
		set(c, values)
		t.wantNoHarm(c, fmt.Sprintf("%s is %q", key, value+end), remedy)
	}
}

// wantNoHarm accepts a valid volume, and a failure that leaves nothing.
func (t *trial) wantNoHarm(c *claim, when, remedy string) {
	r := t.provision(c)
	volume := t.api.Volume(c.VolumeName)
	if volume != nil {
		faults := podspec.Misfits(volume, c.object())
		if len(faults) > 0 && !t.misfit {
			t.fail(r, when+": a volume that fits", strings.Join(faults, "; "), remedy)
		}
		if got := kindOf(volume); t.source != "" && got != t.source {
			t.fail(r, when+": a volume of the kind "+t.source, "it is "+describe(volume), remedy)
		}
	}
	var removed *run
	if volume != nil || r.MayHaveMade() {
		removed = t.removed(c)
		t.api.RemoveVolume(c.VolumeName)
		if volume != nil && !removed.ok() {
			t.fail(removed, when+": what was provisioned can be deleted", removed.summary(), remedy)
		}
	}
	t.wantNothing(r, when, remedy)
	if r.Fell || removed != nil && removed.Fell {
		t.fail(r, when+": it is taken as text", "a part of it was run as a command", remedy)
	}
}

// kindOf is the name of the field of the volume's source.
func kindOf(volume *corev1.PersistentVolume) string {
	source := reflect.ValueOf(volume.Spec.PersistentVolumeSource)
	var kinds []string
	for i := range source.NumField() {
		if !source.Field(i).IsNil() {
			kinds = append(kinds, source.Type().Field(i).Name)
		}
	}
	return strings.Join(kinds, "+")
}

package main

import (
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// The author of the claim wrote the parts of the name.
func TestDirectoryName(t *testing.T) {
	const known = "known are ${.PVC.namespace}, ${.PVC.name}, ${.PV.name}, ${.PVC.labels.KEY} and ${.PVC.annotations.KEY}"
	request := sdktest.Provision(nil)
	request.ClaimLabels = map[string]string{"example.com/team": "a", "none": ""}
	request.ClaimAnnotations = map[string]string{"up": "..", "slash": "a/b", "quote": `a"; rm`, "long": strings.Repeat("a", 256), "most": strings.Repeat("a", 255)}
	for _, c := range []struct{ pattern, want, fault string }{
		{pattern: "${.PVC.namespace}.${.PVC.name}", want: "team-a.data"},
		{pattern: "x-${.PVC.labels.example.com/team}-${.PV.name}", want: "x-a-" + request.VolumeName},
		{pattern: "${.PV.name}", want: request.VolumeName},
		{pattern: "${.PVC.annotations.most}", want: strings.Repeat("a", 255)},
		{pattern: "$HOME", fault: `path-pattern "$HOME" gives the directory "$HOME", which has to begin with a letter or digit`},
		{pattern: "a$HOME", fault: `path-pattern "a$HOME" gives the directory "a$HOME", which has to be one name of letters, digits, '.', '_' and '-'`},
		{pattern: "", fault: `path-pattern "" gives the directory "", which has to begin with a letter or digit`},
		{pattern: "${.PVC.name", fault: `path-pattern "${.PVC.name" has no } after ${.PVC.name`},
		{pattern: "${.PVC.uid}", fault: `path-pattern "${.PVC.uid}": ${.PVC.uid} is not known; ` + known},
		{pattern: "${.PVC.labels.tier}", fault: `path-pattern "${.PVC.labels.tier}": the class does not have the label tier: add it to the key claim-labels of its ConfigMap`},
		{pattern: "${.PVC.labels.none}", fault: `path-pattern "${.PVC.labels.none}": the claim has no label none: give it one`},
		{pattern: "${.PVC.annotations.x}", fault: `path-pattern "${.PVC.annotations.x}": the class does not have the annotation x: add it to the key claim-annotations of its ConfigMap`},
		{pattern: "${.PVC.annotations.up}", fault: `path-pattern "${.PVC.annotations.up}" gives the directory "..", which has to begin with a letter or digit`},
		{pattern: "a${.PVC.annotations.up}/etc", fault: `path-pattern "a${.PVC.annotations.up}/etc" gives the directory "a../etc", which has to be one name of letters, digits, '.', '_' and '-'`},
		{pattern: "${.PVC.annotations.slash}", fault: `path-pattern "${.PVC.annotations.slash}" gives the directory "a/b", which has to be one name of letters, digits, '.', '_' and '-'`},
		{pattern: "${.PVC.annotations.quote}", fault: `path-pattern "${.PVC.annotations.quote}" gives the directory "a\"; rm", which has to be one name of letters, digits, '.', '_' and '-'`},
		{pattern: "${.PVC.annotations.long}", fault: `path-pattern "${.PVC.annotations.long}" gives the directory "` + strings.Repeat("a", 256) + `", which has 256 characters, and at most 255 are allowed`},
		{pattern: "archived-x", fault: `path-pattern "archived-x" gives the directory "archived-x", which is kept for archived directories`},
		{pattern: "pvc-00000000-0000-4000-8000-000000000000", fault: `path-pattern "pvc-00000000-0000-4000-8000-000000000000" gives the directory "pvc-00000000-0000-4000-8000-000000000000", which is kept for the volume of that name`},
	} {
		got, err := directoryName(c.pattern, request)
		fault := ""
		if err != nil {
			fault = err.Error()
		}
		if got != c.want || fault != c.fault {
			t.Errorf("%s: %q, %s\nwant %q, %s", c.pattern, got, fault, c.want, c.fault)
		}
	}
}

package progress

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
)

func TestDelayed(t *testing.T) {
	for _, s := range []scene{
		{name: "new claim", want: "none"},
		{name: "no ConfigMap", also: "no-config", pods: []string{"prov-3 failed"}, want: "none"},
		{name: "pod runs", pods: []string{"prov-3 running"}, want: "none"},
		{name: "failed", pods: []string{"prov-4 failed"}, want: "prov-4 for 15.5s"},
		{name: "failed, its record kept", pods: []string{"prov-0 failed kept", "prov-4 failed kept"}, want: "prov-4 for 15.5s"},
		{name: "refused", pods: []string{"prov-0 refused"}, want: "prov-0 for 4m59.5s"},
		{name: "exit 0 and no volume", pods: []string{"prov-0 done"}, want: "prov-0 for 500ms"},
		{name: "the delay is over", pods: []string{"prov-0 failed old"}, want: "prov-0 for 500ms"},
		{name: "asked already", pods: []string{"prov-9 failed retry"}, want: "none"},
		{name: "an undo waits for requests that may be under way", claim: "none", pods: []string{"prov-3 killed"}, want: "none"},
		{name: "an undo failed", claim: "none", pods: []string{"prov-3 failed", "del-2 failed undo"}, want: "del-2 for 3.5s"},
		{name: "delete failed", claim: "none", volume: "fits released", pods: []string{"del-5 failed"}, want: "del-5 for 31.5s"},
		{name: "delete failed, and deletions are stopped", claim: "none", volume: "fits released", also: "stopped", pods: []string{"del-5 failed"}, want: "none"},
		{name: "bound", claim: "bound", volume: "fits bound", want: "none"},
	} {
		t.Run(s.name, func(t *testing.T) {
			seen := s.observed()
			got := "none"
			if a, until, ok := Delayed(seen); ok {
				got = fmt.Sprintf("%s for %s", a.Pod.UID, until.Sub(noon).Round(100*time.Millisecond))
			}

			if got != s.want {
				t.Errorf("got %s, want %s", got, s.want)
			}

			if again := reconcile.Decide(seen); !reflect.DeepEqual(again, reconcile.Decide(s.observed())) {
				t.Errorf("the state was changed: %+v", again)
			}
		})
	}
}

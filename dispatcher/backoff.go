package dispatcher

import (
	"time"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Delays between the attempts for one claim. They are read off the failed pod, so that a restart of the dispatcher
// neither shortens nor resets them.
const (
	shortestDelay = time.Second
	longestDelay  = 5 * time.Minute
	// busyDelay bounds the delay after a provisioner that asked to be tried again soon.
	busyDelay = 15 * time.Second
	// unschedulableGrace is how long a claim's selected node may refuse the pod before the scheduler is asked for another.
	unschedulableGrace = 30 * time.Second
)

// retryAt is when the attempt after a has its turn: one second after the first failure, then twice as long each time.
func retryAt(a attempt) time.Time {
	delay := longestDelay
	if a.number < 9 {
		delay = min(longestDelay, shortestDelay<<a.number)
	}
	switch {
	case a.outcome.Disrupted():
		delay = shortestDelay
	case a.outcome.Reason == podspec.ReasonTryAgain:
		delay = min(delay, busyDelay)
	case a.outcome.Reason == podspec.ReasonRefused:
		delay = longestDelay
	}
	return a.outcome.Finished.Add(delay)
}

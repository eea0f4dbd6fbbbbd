// Package obstacles says what keeps a pod from being created for one claim, for the people who can remove it.
//
// It owns why a claim is refused or waits, why a volume is not expanded, and what protects storage from deletion. Each
// is a reason of an event and a sentence. It may import observed, resize, events, podspec, configmaps and contract. It
// is pure, and decides nothing beyond that: what follows from an obstacle is for reconcile to say.
package obstacles

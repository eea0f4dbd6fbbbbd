// Package sim is a small Kubernetes with a storage backend, in which the real dispatcher runs while everything around
// it goes wrong: the API server's double, and stand-ins for the volume binder, the scheduler, kubelets and the author's
// image. It lives in the virtual time of testing/synctest.
//
// One seed makes one Plan, which is data: what the cluster looks like, which calls fail how often, and what happens
// when. Every decision that a run draws besides is a function of the seed, the actor, the object and a count, never of
// the order in which goroutines ran, and every call takes a time of its own, so that a plan mostly takes the same
// course again.
package sim

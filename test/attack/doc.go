// Package attack tries what must not work: hostile requests, claims, volumes and answers, as tables of data with one
// file for each point of view. Each case says what it attacks and what refuses it, or why it is accepted.
//
// The tables, and what a hostile backend answers, are checked without a cluster. Requests go to a real API server without
// nodes, with the build tag integration. Stories, which take pods that run, are told on a real cluster, with the build tag
// e2e.
package attack

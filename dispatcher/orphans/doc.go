// Package orphans reports every hour what nobody needs any more.
//
// It owns the audit of what the caches hold, and its metric. It may import cache, recorder, events, observed, audit,
// podspec and contract. It changes nothing: an administrator does.
package orphans

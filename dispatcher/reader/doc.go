// Package reader asks the API server itself, where a cache may lag.
//
// It owns the live reads. It may import cache, podspec and contract. It decides nothing: what does not exist is nil,
// and the caller says what that means.
package reader

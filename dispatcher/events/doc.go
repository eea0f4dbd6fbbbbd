// Package events says what the dispatcher did and why, in words for users and administrators.
//
// It owns every reason of the dispatcher's events, with the constructor that makes its message. It may import podspec
// and contract. It is pure: the recorder writes events.
package events

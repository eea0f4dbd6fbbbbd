// Package tracing says what a claim spent its time on, from its creation until it is bound, as spans of OpenTelemetry.
//
// It owns their names, attributes and IDs. It may import snapshot, podspec and contract. It is pure: who sends spans decides where to.
// All IDs come from the UIDs of the claim and its pods, so that every dispatcher makes the same trace, and what is sent twice is the
// same span. It is not for import by other modules.
package tracing

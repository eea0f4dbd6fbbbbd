// Package likeness plays the same short schedules to a dispatcher at a real API server and to one at the double of
// test/chaos, and compares what the two asked for and were answered.
package likeness

// Package fake is a Cinder that lives in the test's process: block storage API v3 over HTTP, and Keystone v3 where
// asked for, with state, errors and texts as recorded from the real one (../recordings), and with faults that the real
// one has only on bad days.
//
//	f := fake.New(t, fake.WithKeystone())
//	lost := f.Fault(fake.On("os-reserve").AfterEffect().Close())
//	... use f.Endpoint(), f.AuthURL(), f.Identity() ...
//	if got := f.Volume("pvc-1").Status; got != "in-use" { ... }
//	if got := f.Calls().Count("os-reserve"); got != 1 { ... }
//
// A volume passes through "creating" and "deleting" as WithPace says. Nothing else happens by itself.
package fake

//go:build cinder

package main

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

const (
	rateVolumes = 6 // of each in a round
	rateRounds  = 2
	rateAtOnce  = 4
)

// TestRate measures volumes a second of the program, and of a bare one that makes the same calls to Cinder and nothing
// else, in turn, and holds it to nine tenths of that.
func TestRate(t *testing.T) {
	for how, config := range credentials(t) {
		s := realStage(t, config)
		client := s.client(t)
		var ours, bare, total, inCalls time.Duration
		for round := range rateRounds {
			base := fmt.Sprintf("4a7e%04x-0000-4000-8000-", round)
			uid := func(i int) string { return fmt.Sprintf("%s%012x", base, i) }
			for i := range rateVolumes { // of a run that was stopped
				if err := bareDelete(t.Context(), client, "pvc-"+uid(100+i)); err != nil {
					t.Fatal(err)
				}
			}
			bare += several(func(i int) {
				if err := bareProvision(t.Context(), s.config, "pvc-"+uid(100+i)); err != nil {
					t.Error(err)
				}
			})
			var mu sync.Mutex
			ours += several(func(i int) {
				start := time.Now()
				got := s.realRun(t.Context(), contract.Provision, uid(i))
				took := time.Since(start)
				got.want(t, 0, "")
				mu.Lock()
				total += took
				inCalls += timeInCalls(got.log)
				mu.Unlock()
			})
			several(func(i int) {
				s.realRun(t.Context(), contract.Delete, uid(i)).want(t, 0, "")
				if err := bareDelete(t.Context(), client, "pvc-"+uid(100+i)); err != nil {
					t.Error(err)
				}
			})
		}
		n := float64(rateVolumes * rateRounds)
		ratio := bare.Seconds() / ours.Seconds()
		t.Logf("%s: volumes a second: %.2f, bare %.2f, ratio %.3f; %.0f %% of the program's time in Cinder's calls", how,
			n/ours.Seconds(), n/bare.Seconds(), ratio, 100*float64(inCalls)/float64(total))
		if ratio < 0.9 {
			t.Errorf("%s: the program makes %.3f of the volumes that the bare one makes, want 0.9", how, ratio)
		}
		return // one way in is enough: the calls after the login are the same
	}
}

var logged = regexp.MustCompile(` took=(\S+)`)

// timeInCalls is the time of all calls to Cinder that a run logged.
func timeInCalls(log string) (all time.Duration) {
	for _, m := range logged.FindAllStringSubmatch(log, -1) {
		if took, err := time.ParseDuration(m[1]); err == nil {
			all += took
		}
	}
	return all
}

// several does rateVolumes things, rateAtOnce at a time, and is how long that took.
func several(do func(i int)) time.Duration {
	start := time.Now()
	turns := make(chan struct{}, rateAtOnce)
	var all sync.WaitGroup
	for i := range rateVolumes {
		all.Go(func() {
			turns <- struct{}{}
			do(i)
			<-turns
		})
	}
	all.Wait()
	return time.Since(start)
}

// bareProvision logs in, looks for the volume, makes it, waits, and attaches it, as the program does where nothing goes
// wrong.
func bareProvision(ctx context.Context, config map[string]string, name string) error {
	login, err := connect(ctx, config)
	if err != nil {
		return err
	}
	defer login.Close()
	client := cinder.New(login)
	if _, err := client.Find(ctx, name); err != nil {
		return err
	}
	volume, err := client.Create(ctx, cinder.CreateOpts{Name: name, Size: 1}, nil)
	if err != nil {
		return err
	}
	for pause := 50 * time.Millisecond; volume.Status != "available"; pause = pause * 3 / 2 {
		time.Sleep(pause) // as a client of Cinder has to: it tells nobody
		found, err := client.Find(ctx, name)
		if err != nil {
			return err
		}
		if len(found) != 1 || found[0].Status == "error" {
			return fmt.Errorf("cinder has %+v of %s", found, name)
		}
		volume = &found[0]
	}
	if err := client.Reserve(ctx, volume.ID); err != nil {
		return err
	}
	if _, err := client.Connect(ctx, volume.ID, bareConnector(name)); err != nil {
		return err
	}
	return client.Attach(ctx, volume.ID, "bare", "/dev/vdb", false)
}

func bareConnector(name string) cinder.Connector {
	return cinder.Connector{"host": "bare", "ip": "127.0.0.1", "initiator": "iqn.2026-01.bare:" + name, "multipath": false, "os_type": "linux", "platform": "x86_64"}
}

func bareDelete(ctx context.Context, client *cinder.Client, name string) error {
	found, err := client.Find(ctx, name)
	if err != nil {
		return err
	}
	for _, v := range found {
		if err := client.Terminate(ctx, v.ID, bareConnector(name)); err != nil {
			return err
		}
		for _, a := range v.Attachments {
			if err := client.Detach(ctx, v.ID, a.AttachmentID); err != nil {
				return err
			}
		}
		if err := client.Delete(ctx, v.ID); err != nil {
			return err
		}
	}
	return nil
}
